"""Decodes many recordings in threads; the compiled kernels release the global interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from mucon.errors import InputError, check_ranges

R = TypeVar("R")

_AHEAD = 2
"""Bunches per thread that are started ahead of the fetched results."""


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[R]):
    """One recording to decode.

    Attributes:
        video: name of the recording in errors.
        decode: decodes it; must not modify state that other jobs use.
    """

    video: str
    decode: Callable[[], R]


def decode_many(jobs: Iterable[Job[R]], *, threads: int, bunch: int = 16) -> Iterator[R]:
    """Yields the results of jobs in their order, computed in `threads` threads.

    A thread takes `bunch` jobs at a time because waking a thread costs tens of microseconds, as much as a tenth of a
    short recording. At most `2 · threads · bunch` jobs are taken ahead of the fetched results, so an iterable that
    reads recordings one by one never holds all of them. The results do not depend on the number of threads. After a
    failure, or when the iterator is closed, no further bunch is started; results of the same bunch before the failure
    are lost.

    Args:
        jobs: any number, read lazily.
        threads: at least 1; 1 decodes in the calling thread.
        bunch: at least 1; use a small one if single recordings need much memory.

    Raises:
        InputError: fewer than 1 thread or 1 job per bunch, immediately; invalid input of a job, under the name of its
            recording. Any other error of a job keeps its type and gets the name as a note.

    >>> list(decode_many((Job(str(i), lambda i=i: i * i) for i in range(5)), threads=2))
    [0, 1, 4, 9, 16]
    """
    check_ranges("", [("threads", threads, "at least 1", threads >= 1), ("bunch", bunch, "at least 1", bunch >= 1)])
    return map(_run, jobs) if threads == 1 else _threaded(jobs, threads, bunch)


def _threaded(jobs: Iterable[Job[R]], threads: int, bunch: int) -> Iterator[R]:
    remaining = iter(jobs)
    with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
        running: deque[Future[list[R]]] = deque()
        try:
            while True:
                while len(running) < threads * _AHEAD and (taken := list(islice(remaining, bunch))):
                    running.append(pool.submit(_run_all, taken))
                if not running:
                    return
                yield from running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def _run_all(jobs: list[Job[R]]) -> list[R]:
    return [_run(job) for job in jobs]


def _run(job: Job[R]) -> R:
    with _Named(job.video):
        return job.decode()


class _Named:
    """Adds the name of the recording to errors raised in the `with` block."""

    def __init__(self, video: str) -> None:
        self.video = video

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, InputError):
            raise InputError(error.under(self.video)) from error
        if error is not None:
            error.add_note(f"while decoding {self.video!r}")

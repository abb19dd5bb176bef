"""Many recordings decoded side by side: the compiled kernels run without the interpreter's lock, so threads do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from mucon.errors import InputError

R = TypeVar("R")

_AHEAD = 2
"""Bunches a thread that are handed out ahead of the results."""


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[R]):
    """One recording to decode.

    Attributes:
        video: its name, for errors.
        decode: does it, and shares nothing that it changes with other jobs.
    """

    video: str
    decode: Callable[[], R]


def decode_many(jobs: Iterable[Job[R]], *, threads: int, bunch: int = 16) -> Iterator[R]:
    """The results of jobs, in their order, computed in `threads` threads.

    A thread takes `bunch` jobs at a time: waking threads costs tens of microseconds, as much as a tenth of a short
    recording. No more than `2 · threads · bunch` jobs are taken ahead of the results that were fetched, so an
    iterable that reads recordings one by one never holds all of them. The results are those of one thread. When one
    fails, or the iterator is closed, no further bunch is started; the results before the failure in its bunch are
    lost.

    Args:
        jobs: any number.
        threads: at least 1; 1 decodes in the calling thread, one by one.
        bunch: at least 1; fewer where single recordings fill much memory.

    Raises:
        InputError: fewer than 1 thread or job a bunch, at once; a job's input is wrong: its problems, each with the
            video's name. Any other error of a job keeps its type and gets the video's name as a note.

    >>> list(decode_many((Job(str(i), lambda i=i: i * i) for i in range(5)), threads=2))
    [0, 1, 4, 9, 16]
    """
    if threads < 1:
        raise InputError(f"decoding needs at least 1 thread, not {threads}: raise it")
    if bunch < 1:
        raise InputError(f"a bunch has at least 1 job, not {bunch}: raise it")
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
    """Errors inside the `with` block say which recording they are about."""

    def __init__(self, video: str) -> None:
        self.video = video

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InputError):
            raise InputError(error.under(self.video)) from error
        if error is not None:
            error.add_note(f"while decoding {self.video!r}")

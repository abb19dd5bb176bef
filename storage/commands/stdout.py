"""Standard output and error whose reader may be gone: `head`, a terminal that was closed, a log on a full disk."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from storage.errors import EXIT_INPUT, EXIT_OK, Problem

_GONE = (errno.EPIPE, errno.EIO, errno.ENXIO)
"""Errors of a stream without a reader, after which nobody misses what is written."""


class LastingOutput:
    """A stream that drops what is written after its first error, so that the work goes on.

    Args:
        stream: the stream that is written to.

    Attributes:
        has_reader: whether the stream can be written; a command that only prints ends if it cannot.
        failure: the error of a stream that lost text which somebody may miss, such as on a full disk; None without one.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.has_reader = True
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """Writes a text; returns its length."""
        with self._lasting():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        with self._lasting():
            self.stream.flush()

    @contextlib.contextmanager
    def _lasting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.has_reader = False
            if error.errno not in _GONE:
                self.failure = error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def with_lasting_output(run: Callable[[], int]) -> int:
    """Runs a command with standard output and error that last.

    Characters that the encoding of standard output lacks are printed as escapes.

    Args:
        run: the command; prints its errors and returns its exit status.

    Returns:
        Its exit status; 2 instead of 0 if a part of standard output was lost for another reason than a reader that is
        gone.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with _lasting(sys.stderr, contextlib.redirect_stderr):
        with _lasting(sys.stdout, contextlib.redirect_stdout) as output:
            status = run()
        if output is None or output.failure is None:
            return status
        reason = output.failure.strerror
        message, hint = f"cannot write ({reason}); a part of the output is lost", "free some space"
        problem = Problem(rule="unwritable", place="standard output", value=reason, message=message, hint=hint)
        print(f"error: {problem}", file=sys.stderr)
        return status if status != EXIT_OK else EXIT_INPUT


@contextlib.contextmanager
def _lasting(
    stream: TextIO | None, redirect: Callable[[TextIO], contextlib.AbstractContextManager[object]]
) -> Iterator[LastingOutput | None]:
    """Redirects a stream to a lasting one; a stream that is closed from the start is None and stays so."""
    if stream is None:
        yield None
        return
    lasting = LastingOutput(stream)
    with redirect(cast(TextIO, lasting)):
        try:
            yield lasting
        finally:
            lasting.flush()

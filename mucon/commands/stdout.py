"""Standard output and error whose reader may be gone: `head`, or a terminal that was closed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast


class LastingOutput:
    """A stream that drops what is written after its reader is gone, so that the work goes on.

    Args:
        stream: the stream that is written to.

    Attributes:
        has_reader: whether no reader has closed the stream; a command that only prints ends without one.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.has_reader = True

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
            if error.errno not in (errno.EPIPE, errno.EIO, errno.ENXIO):
                raise
            self.has_reader = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Standard output and error last in the block; characters that their encoding lacks are printed as escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with _lasting(sys.stdout, contextlib.redirect_stdout), _lasting(sys.stderr, contextlib.redirect_stderr):
        yield


@contextlib.contextmanager
def _lasting(
    stream: TextIO | None, redirect: Callable[[TextIO], contextlib.AbstractContextManager[object]]
) -> Iterator[None]:
    """Redirects a stream to a lasting one; a stream that is closed from the start is None and stays so."""
    if stream is None:
        yield
        return
    lasting = LastingOutput(stream)
    with redirect(cast(TextIO, lasting)):
        try:
            yield
        finally:
            lasting.flush()

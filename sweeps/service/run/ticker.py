"""Calls a function again and again beside the sweep."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from sweeps.service.run.reasons import reason_of
from sweeps.service.text import redacted


class Ticker:
    """A thread that calls a function every few seconds inside a `with` block; an error of it is one warning.

    Args:
        function: what is called; called once more at the end if `last` is true.
        seconds: time between the end of a call and the next one.
        warn: receives the first error as a line.
        last: whether the function is called at the end of the block.
    """

    def __init__(
        self, function: Callable[[], object], seconds: float, warn: Callable[[str], None], *, last: bool = False
    ) -> None:
        self._function = function
        self._seconds = seconds
        self._warn = warn
        self._last = last
        self._ended = threading.Event()
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        if self._last:
            self._call()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._call()

    def _call(self) -> None:
        try:
            self._function()
        except Exception as error:  # a sweep does not fail for what happens beside it
            if not self._has_warned:
                self._has_warned = True
                self._warn(f"warning: {redacted(reason_of(error))}")

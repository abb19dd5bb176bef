"""The progress of a store command: a bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import shutil
import sys
import time

_BAR_SECONDS = 0.1
_LINE_SECONDS = 30.0


class ProgressBar:
    """Shows how far an activity is, at which rate it advances, and how long the rest takes at this rate.

    On a terminal this is a bar, drawn again at most ten times a second. Elsewhere it is a line every 30 seconds, so
    that short activities print nothing. Both are printed to standard error.
    """

    def __init__(self) -> None:
        self._what = ""
        self._done = self._first = 0
        self._start = self._shown = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Notes that `done` of `total` items are finished; `what` names the activity."""
        now, bar = time.monotonic(), sys.stderr.isatty()
        if what != self._what or done < self._done:
            # The time of the first item is not known.
            self._what, self._first, self._start, self._shown = what, done, now, 0.0 if bar else now
        self._done = done
        if now - self._shown < (_BAR_SECONDS if bar else _LINE_SECONDS) and not (bar and done == total):
            return
        self._shown = now
        text = progress_text(what, done, total, done - self._first, now - self._start)
        if not bar:
            print(text, file=sys.stderr, flush=True)
            return
        columns = max(0, min(40, shutil.get_terminal_size().columns - len(text) - 4))
        full = columns * done // max(1, total)
        drawn = f"[{'#' * full}{'-' * (columns - full)}] " if columns else ""
        print(f"\r{drawn}{text}\x1b[K", end="\n" if done == total else "", file=sys.stderr, flush=True)


def progress_text(what: str, done: int, total: int, measured: int, seconds: float) -> str:
    """Formats the state of an activity.

    Args:
        what: name of the activity.
        done: number of finished items.
        total: number of all items.
        measured: number of the items that were finished in `seconds`.
        seconds: time for them.

    >>> progress_text("writing", 50, 200, 49, 9.8)
    'writing 50 of 200, 5/s, 30 s left'
    >>> progress_text("writing", 200, 200, 199, 39.8)
    'writing 200 of 200, 5/s'
    >>> progress_text("writing", 1, 200, 0, 0.0)
    'writing 1 of 200'
    """
    if not measured or seconds <= 0:
        return f"{what} {done} of {total}"
    rate = measured / seconds
    left = (total - done) / rate
    minutes, rest = divmod(round(left), 60)
    duration = f", {f'{minutes} min ' if minutes else ''}{rest} s left" if done < total else ""
    return f"{what} {done} of {total}, {rate:.3g}/s{duration}"

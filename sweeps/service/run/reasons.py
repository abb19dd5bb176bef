"""Why a trial failed, as one line: type and message of the error, without its traceback and terminal codes."""

from __future__ import annotations

import re
import traceback

MOST_CHARACTERS = 300
_CODES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
"""Escape sequences of terminals, such as colours."""
_FRAME = re.compile(r'\s+File ".*", line \d+')
_FACT = re.compile(r"\s+\w+: \S+$")
"""A line in which Ray names an actor, a process or an address."""
_MODULES = re.compile(r"([a-zA-Z_]\w*\.)+(?=\w+(\(\w+\))?(:|$))")


def reason_of(error: BaseException) -> str:
    r"""The reason of an exception.

    >>> reason_of(ValueError("two\nlines"))
    'ValueError: two lines'
    """
    return reason_in("".join(traceback.format_exception_only(error)))


def reason_in(text: str) -> str:
    r"""The reason in a text that may contain a traceback: what follows its last frame.

    >>> reason_in('Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n    ^^^\nKeyError: 3')
    'KeyError: 3'
    """
    lines = _CODES.sub("", text).splitlines()
    frames = [i for i, line in enumerate(lines) if _FRAME.match(line)]
    if frames:
        after = lines[frames[-1] + 1 :]  # indented lines of code and carets come first
        begin = next((i for i, line in enumerate(after) if line and not line[0].isspace()), None)
        lines = lines if begin is None else after[begin:]
    joined = " ".join(" ".join(line for line in lines if not _FACT.match(line)).split())
    return _MODULES.sub("", joined, count=1)[:MOST_CHARACTERS]

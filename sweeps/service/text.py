"""Values and durations as text, and printing of plain lines."""

from __future__ import annotations

import hashlib
import json
import math
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from storage.remote.secrets import HIDDEN as HIDDEN
from storage.remote.secrets import redacted as redacted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def duration(seconds: float) -> str:
    """A duration in at most two units, at least 1 s.

    >>> duration(0.4), duration(12.3), duration(75), duration(7260), duration(200000)
    ('1 s', '12 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    whole = max(round(seconds), 1)
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[tuple[int, str]] = []
    for size, name in units:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count)


def megabytes(n_bytes: int) -> str:
    """A number of bytes.

    >>> megabytes(1_234_567), megabytes(1200), megabytes(0)
    ('1.2 MB', '0.1 MB', '0.0 MB')
    """
    return f"{math.ceil(n_bytes / 1e5) / 10:.1f} MB" if n_bytes < 1e6 else f"{n_bytes / 1e6:.1f} MB"


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, with hours from an hour on.

    >>> clock(75), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def significant(value: float, digits: int) -> str:
    """A number with some significant digits, but at least all digits before the point, and without an exponent.

    >>> significant(1362.4, 3), significant(0.03521, 3), significant(7.04, 2)
    ('1362', '0.0352', '7')
    """
    return f"{value:.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


MAX_PARAM = 500
"""Largest number of characters of a parameter's value; old MLflow servers reject longer ones."""


def param_text(value: object) -> str:
    """A value as text; two texts are equal if and only if the values are.

    A text longer than `MAX_PARAM` is cut and ends with a digest of the whole; the artifact config.json has all of it.

    >>> param_text(0.1), param_text(True), param_text("box"), param_text([1, 2]), param_text(None)
    ('0.1', 'true', 'box', '[1, 2]', 'null')
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_PARAM else f"{text[: MAX_PARAM - 24]} ... sha256:{digest(text)}"


def digest(text: str) -> str:
    """Twelve hexadecimal digits that identify a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def printable(text: str) -> str:
    r"""The text with control characters besides tab and line feed, and halves of characters, as escapes.

    >>> print(printable("a\x1b[31m \ud83c [b]"))
    a\x1b[31m \ud83c [b]
    """
    return "".join(
        ascii(sign)[1:-1] if unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\t\n" else sign
        for sign in text
    )


def plain(text: object, style: str = "") -> Text:
    """A text as rich shows it as it is written: without markup, highlighting or control characters."""
    from rich.text import Text

    return Text(printable(str(text)), style=style)


_MARKDOWN = re.compile(r"[\\`*\[\]<|~$]|(?<!\w)_|_(?!\w)")


def in_markdown(text: str) -> str:
    r"""The text on one line, with a backslash before each character that Markdown would interpret.

    >>> print(in_markdown("a|b [s] 2*3 full_mof _x_"))
    a\|b \[s\] 2\*3 full_mof \_x\_
    """
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split("\n")))


def say(console: Console, line: str) -> None:
    """Prints a line as it is written, without wrapping."""
    console.print(plain(line), soft_wrap=True)


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines that end between words; in one line if the width is 0."""
    if not width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)

"""Names and texts of a specification that every file, terminal, page and server can take."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from mucon.errors import Problem

MAX_NAME = 200
"""Characters of a name; the longest suffix of a file that is named after it fits beside it into 255 bytes."""
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


def name_problems(place: str, name: str) -> Iterator[Problem]:
    """The problems of the name of a sweep or table, which names files.

    >>> [problem.rule for name in ("masks-2", "../x", "") for problem in name_problems("name", name)]
    ['range', 'range']
    """
    if not _NAME.fullmatch(name):
        expected = "letters, digits, dots, hyphens and underscores, neither a dot nor a hyphen first"
        yield Problem(rule="range", place=place, value=name, expected=expected)
    elif len(name) > MAX_NAME:
        message = f"expected at most {MAX_NAME} characters, got {len(name)}"
        yield Problem(rule="range", place=place, value=name, message=message)


def text_problems(place: str, *texts: str) -> Iterator[Problem]:
    r"""The problems of texts that are shown: control characters besides tab and line feed, and halves of characters.

    >>> [problem.value for problem in text_problems("title", "50 % [s]\n", "a\x1b[31m", "\ud83c")]
    ["'a\\x1b[31m'", "'\\ud83c'"]
    """
    for text in texts:
        if any(unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\t\n" for sign in text):
            message = f"contains a character that cannot be shown: {text!a}"
            yield Problem(rule="type", place=place, value=ascii(text), message=message)


def row_name(labels: Iterable[str]) -> str:
    """The non-empty labels of a row as one text.

    >>> row_name(("box", "", "10 %"))
    'box, 10 %'
    """
    return ", ".join(label for label in labels if label)


def joined(text: str) -> str:
    r"""The text with each pair of surrogates, as JSON escapes them, as the character that it stands for.

    >>> joined("\ud83c\udf89") == "\U0001f389", joined("\ud83c") == "\ud83c"
    (True, True)
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

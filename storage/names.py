"""One form for names of actions and recordings that look alike."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"
"""Invisible characters that distinguish words, such as in Persian and in Indian languages."""


def normal(text: str) -> str:
    """Returns text in Unicode normal form C, without invisible characters and with plain blanks.

    Names are compared and stored in this form: an accent is part of its letter, a no-break space is a space, and byte
    order marks, zero-width spaces and soft hyphens are dropped. Joiners stay: they belong to the spelling of words.

    >>> normal("cafe\u0301"), normal("pour\u00a0milk"), normal("\ufeffstir")
    ('café', 'pour milk', 'stir')
    """
    if text.isascii():
        return text
    kinds = [(character, unicodedata.category(character)) for character in text]
    visible = "".join(
        " " if kind == "Zs" else character for character, kind in kinds if kind != "Cf" or character in JOINERS
    )
    return unicodedata.normalize("NFC", visible)

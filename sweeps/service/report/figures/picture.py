"""A figure as a value, drawn only if needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure of a sweep.

    Attributes:
        name: name of its files, unique on the page.
        title: caption.
        shows: all data that the drawing depends on, as text.
        draw: makes the matplotlib figure.
        notes: caption lines, such as what is left out and why.
    """

    name: str
    title: str
    shows: str
    draw: Callable[[], Any]
    notes: tuple[str, ...] = ()

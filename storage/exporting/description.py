"""What a store knows and the layout of MS-TCN cannot hold: `store.json`, beside the files of the layout.

Imports neither numpy nor pyarrow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from storage.constants import DTYPES
from storage.errors import Problem, StoreError

FILE = "store.json"
_FORMAT, _VERSION = "mucon-export", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Content of `store.json`.

    Attributes:
        dtype: dtype of the features.
        background: names of the background actions.
        fps: feature frames per second.
        window: seconds of the recording that the features of one frame cover.
        stride: seconds from one frame to the next.
        offset: seconds from the beginning of the recording to the window of the first frame.
        metadata: metadata of the store.
        groups: group of each clip that has one.
        activities: activity of each clip that has one.
        lengths: frames of the segments of each clip in which an action follows itself, which labels of frames cannot
            show.
        unannotated: clips without labels and without a transcript.
        parts: clips of the split parts, such as `1:Train`, whose names no file of the layout can have.
    """

    dtype: str
    background: tuple[str, ...] = ()
    fps: float | None = None
    window: float | None = None
    stride: float | None = None
    offset: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    activities: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unannotated: tuple[str, ...] = ()
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def times(self) -> dict[str, float | None]:
        """The arguments fps, window, stride and offset of `StoreWriter`."""
        return {"fps": self.fps, "window": self.window, "stride": self.stride, "offset": self.offset}

    def to_json(self) -> str:
        """Returns the text of `store.json`."""
        value = {"format": _FORMAT, "format_version": _VERSION, **asdict(self)}
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads and validates the file.

        Raises:
            StoreError: it cannot be read, or has fields that are missing or of the wrong type (all of them).
        """
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            message = f"cannot read ({error})"
            raise StoreError(Problem(rule="unreadable", place=str(path), message=message, hint=_HINT)) from error
        if not isinstance(value, dict) or value.get("format") != _FORMAT:
            found = value.get("format") if isinstance(value, dict) else type(value).__name__
            expected = f'"format": "{_FORMAT}"'
            raise StoreError(Problem(rule="type", place=str(path), value=found, expected=expected, hint=_HINT))
        if value.get("format_version") != _VERSION:
            found = value.get("format_version")
            expected = f"format version {_VERSION}"
            raise StoreError(Problem(rule="version", place=str(path), value=found, expected=expected))
        if problems := list(_problems(value, path)):
            raise StoreError(problems)
        fields = {name: value[name] for name in _FIELDS}
        fields |= {name: tuple(fields[name]) for name in ("background", "unannotated")}
        for name in ("lengths", "parts"):
            fields[name] = {key: tuple(entries) for key, entries in fields[name].items()}
        return cls(**fields)

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        """Returns whether a folder contains such a file, or one that is damaged: without it, the rest would be lost."""
        try:
            with (folder / FILE).open("rb") as file:
                if f'"{_FORMAT}"'.encode() in file.read(200):
                    return True
            json.loads((folder / FILE).read_bytes())
        except OSError:
            return False
        except (ValueError, RecursionError):
            return True
        return False


_HINT = "export the store again, or remove the file to import the folder without it"


def _number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _counts(value: object) -> bool:
    return isinstance(value, list) and all(type(entry) is int and entry > 0 for entry in value)


def _mapping(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(check(entry) for entry in value.values())


_FIELDS: dict[str, Callable[[object], bool]] = {
    "dtype": lambda value: value in DTYPES,
    "background": _texts,
    "fps": _number,
    "window": _number,
    "stride": _number,
    "offset": _number,
    "metadata": lambda value: isinstance(value, dict),
    "groups": _mapping(lambda value: isinstance(value, str)),
    "activities": _mapping(lambda value: isinstance(value, str)),
    "lengths": _mapping(_counts),
    "unannotated": _texts,
    "parts": _mapping(_texts),
}


def _problems(value: dict[str, Any], path: Path) -> Iterator[Problem]:
    for name, check in _FIELDS.items():
        place = f"{path}: {name}"
        if name not in value:
            yield Problem(rule="missing", place=place, message="missing field", hint=_HINT)
        elif not check(value[name]):
            yield Problem(rule="type", place=place, value=value[name], message="invalid value", hint=_HINT)

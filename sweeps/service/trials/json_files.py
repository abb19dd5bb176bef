"""JSON files of a results folder: written atomically, read with their format version and their shape checked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem
from storage.fencing import ALONE, Writer

ANY_KEY = ""
"""In a shape: every other key of the mapping."""
NUMBER = (int, float)
SCORE = (int, float, type(None))
UNREADABLE = frozenset({"damaged", "unreadable"})
"""Rules of problems of one file that do not stop other trials; only a damaged file is set aside."""


def write_json(path: Path, value: object, writer: Writer = ALONE, *, compact: bool = False) -> None:
    """Writes a file atomically; it is durable when the call returns. A directory in its place is renamed.

    Args:
        path: the file.
        value: plain values.
        writer: writes the content.
        compact: one line, which is written and read faster than a line per value.

    Raises:
        SupersededError: the writer has lost the right to write.
    """
    indent = None if compact else 1
    content = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent).encode() + b"\n"
    if path.is_dir():
        set_aside(path, writer)
    writer.write(path, content)


def read_json(
    path: Path, *, versions: Collection[int] = (), hint: str, shape: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The object in a file.

    Args:
        path: the file.
        versions: allowed values of its `format_version`; not checked if empty.
        hint: what to do about a damaged file or another version.
        shape: the parts that the file must contain, see `misfit`.

    Raises:
        InputError: the file is missing, damaged, of another format version or of another shape.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"no {path.name} in this folder"
        raise InputError(
            Problem(rule="missing", place=str(path.parent), value=path.name, message=message, hint=hint)
        ) from None
    except (ValueError, IsADirectoryError, NotADirectoryError, RecursionError) as error:
        raise damaged(path, str(error), hint) from None
    except OSError as error:  # of the disk or of permissions: the content may be whole
        message, way_out = f"cannot be read ({error.strerror})", "try again, or make it readable"
        problem = Problem(rule="unreadable", place=str(path), value=error.errno, message=message, hint=way_out)
        raise InputError(problem) from None
    version = value.get("format_version") if isinstance(value, dict) else None
    if versions and version not in versions and type(version) is int:
        expected = f"format version {' or '.join(map(str, versions))}"
        raise InputError(Problem(rule="version", place=str(path), value=version, expected=expected, hint=hint))
    versioned = {"format_version": int} if versions else {}
    wrong = misfit(value, {**versioned, **(shape or {})})
    if wrong:
        raise damaged(path, wrong, hint)
    content: dict[str, Any] = value
    return content


def damaged(path: Path, reason: str, hint: str) -> InputError:
    """The error for a file whose content is incomplete or of another shape than the program writes."""
    message = f"damaged file ({reason})"
    return InputError(Problem(rule="damaged", place=str(path), value=reason, message=message, hint=hint))


def misfit(value: object, shape: Any, place: str = "") -> str:
    """What a plain value lacks of a shape; empty if it has the shape.

    Args:
        value: the value.
        shape: a type or a tuple of types; a list with the shape of every item; a mapping with the shapes of the keys
            that must be present, or of all further keys under `ANY_KEY`.
        place: keys that lead to the value.

    >>> misfit({"id": "a", "mof": 0.5}, {"id": str, ANY_KEY: NUMBER}), misfit({"mof": "x"}, {ANY_KEY: NUMBER})
    ('', 'mof: expected int or float, got str')
    >>> misfit([], {"id": str}), misfit({}, {"id": str})
    ('expected dict, got list', 'no id')
    """
    kind = dict if isinstance(shape, Mapping) else list if isinstance(shape, list) else shape
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(one.__name__ for one in kinds)
        return f"{place}{': ' * bool(place)}expected {expected}, got {type(value).__name__}"
    parts: list[tuple[object, Any, str]] = []
    if isinstance(value, dict) and isinstance(shape, Mapping):
        missing = sorted(key for key in shape if key != ANY_KEY and key not in value)
        if missing:
            return f"no {place}{'.' * bool(place)}{missing[0]}"
        parts = [(one, shape.get(key, shape.get(ANY_KEY)), key) for key, one in value.items()]
    elif isinstance(value, list) and isinstance(shape, list):
        parts = [(one, shape[0], str(i)) for i, one in enumerate(value)]
    wrong = (
        misfit(one, of, f"{place}{'.' * bool(place)}{key}")
        for one, of, key in parts
        if of is not None and type(one) is not of and not (type(of) is tuple and type(one) in of)
    )
    return next(filter(None, wrong), "")


def set_aside(path: Path, writer: Writer = ALONE) -> Path:
    """Renames a damaged file or directory, so that its place is free; nothing is deleted. Returns its new path."""
    number = 1
    while (target := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    writer.confirm_for(path)
    return path.rename(target)


def leaves(path: Path, folder: Path) -> bool:
    """Whether a file or a directory of files below a folder leads out of it by a symbolic link."""
    root = folder.resolve()
    members = [path, *path.rglob("*")] if path.is_dir() else [path]
    return not all(member.resolve().is_relative_to(root) for member in members)

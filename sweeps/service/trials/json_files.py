"""JSON files of a results folder: written atomically, read with their format version checked."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem


def write_json(path: Path, value: object) -> None:
    """Writes a file atomically; it is durable when the call returns."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, allow_nan=False, ensure_ascii=False, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path, *, versions: Collection[int] = (), hint: str) -> dict[str, Any]:
    """The object in a file.

    Args:
        path: the file.
        versions: allowed values of its `format_version`; not checked if empty.
        hint: what to do about a damaged file or another version.

    Raises:
        InputError: the file is missing, damaged or of another format version.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"no {path.name} in this folder"
        raise InputError(
            Problem(rule="missing", place=str(path.parent), value=path.name, message=message, hint=hint)
        ) from None
    except ValueError as error:
        message = f"damaged file ({error})"
        raise InputError(
            Problem(rule="damaged", place=str(path), value=str(error), message=message, hint=hint)
        ) from None
    if not isinstance(value, dict):
        message = f"damaged file (expected an object, got {type(value).__name__})"
        raise InputError(Problem(rule="damaged", place=str(path), value=value, message=message, hint=hint))
    version = value.get("format_version")
    if versions and version not in versions:
        expected = f"format version {' or '.join(map(str, versions))}"
        raise InputError(Problem(rule="version", place=str(path), value=version, expected=expected, hint=hint))
    return value

"""Digests of the files of a folder, in the form that `sha256sum --check SHA256SUMS` reads."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from mucon.errors import InputError, Problem

FILE = "SHA256SUMS"
EXPORTED = "export.json"
"""Marks an exported folder, which always has checksums, and records how many as `files`."""
CARD = "README.md"
"""What an exported folder says about its model."""


def write_sums(folder: Path) -> None:
    """Writes the digests of all other files in a folder and below it, in the order of their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / FILE)
    lines = [f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / FILE).write_text("".join(lines), encoding="utf-8")


def has_sums(folder: Path) -> bool:
    """Whether a folder has a file of digests, or must have one."""
    return (folder / FILE).is_file() or (folder / EXPORTED).is_file()


def check_sums(folder: Path) -> None:
    """Compares the files of a folder with their digests; files without a digest are not looked at.

    Raises:
        InputError: one problem per file that is missing or has changed, or a file of digests that cannot be read or
            has lost some.
    """
    path = folder / FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except (OSError, ValueError) as error:
        raise InputError(_damaged(path, f"not readable as checksums ({error})")) from error
    problems = [problem for name, digest in sums.items() if (problem := _problem(folder / name, digest)) is not None]
    expected = _n_recorded(folder / EXPORTED)
    if len(sums) < max(expected, 1):
        problems.append(
            _damaged(path, f"contains {len(sums)} of {expected} checksums" if sums else "contains no checksum")
        )
    if problems:
        raise InputError(problems)


def _n_recorded(path: Path) -> int:
    """Number of files that have digests; 0 if it is not recorded."""
    try:
        return int(json.loads(path.read_bytes()).get("files", 0))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(_damaged(path, f"not readable ({error})")) from error


def _problem(path: Path, digest: str) -> Problem | None:
    try:
        found = _sha256(path)
    except FileNotFoundError:
        return Problem(rule="missing", place=str(path), message="no such file", hint="restore a copy of the folder")
    except OSError as error:
        return _damaged(path, f"cannot be read ({error.strerror})")
    return None if found == digest else _damaged(path, f"does not match its checksum in {FILE}")


def _damaged(path: Path, message: str) -> Problem:
    return Problem(rule="damaged", place=str(path), message=message, hint="restore a copy of the folder")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

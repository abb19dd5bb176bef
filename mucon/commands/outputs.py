"""Checks of output paths before any work, by doing what the work will do: creating and writing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mucon.errors import InputError, Problem, Rule
from storage.constants import MANIFEST, VIDEOS

PROBE_BYTES = 2**20
"""Bytes that are written and removed; permission bits alone say nothing about a full disk or a read-only one."""


def check_folder(path: Path, place: str) -> None:
    """Checks that files can be written into a folder; leaves nothing behind.

    Args:
        path: the folder; created if absent, and removed again.
        place: option or argument that names it.

    Raises:
        InputError: a file, a folder that cannot be created or written, or a folder in a feature store.
    """
    _check_outside_stores(path, place)
    if os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112
        raise _refused("exists", place, path, "is not a folder", "choose another path")
    with _created(path, place):
        _probe(path, place)


def check_run_folder(path: Path, place: str) -> None:
    """Checks that a run can be written into a folder, see `check_folder`."""
    check_folder(path, place)
    if (path / "checkpoint").exists() and not (path / "checkpoint").is_dir():
        raise _refused("exists", place, path / "checkpoint", "is not a folder", "choose another path")


def check_file(path: Path, place: str) -> None:
    """Checks that a file can be written; leaves nothing behind and an existing file unchanged.

    Args:
        path: the file.
        place: option or argument that names it.

    Raises:
        InputError: a folder, a file in a missing folder or in a feature store, or one that cannot be written.
    """
    _check_outside_stores(path, place)
    if os.path.isdir(path):  # noqa: PTH112
        raise _refused("exists", place, path, "is a folder", "name a file in it")
    if not os.path.isdir(path.parent):  # noqa: PTH112
        raise _refused("missing", place, path, "lies in a folder that does not exist", f"create {path.parent} first")
    _probe(path.parent, place)
    existed = os.path.lexists(path)
    try:
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise _unwritable(place, path, error) from error


def _check_outside_stores(path: Path, place: str) -> None:
    target = Path(os.path.realpath(path))
    for folder in (target, *target.parents):
        if os.path.isfile(folder / MANIFEST) and os.path.isfile(folder / VIDEOS):  # noqa: PTH113  # never raises
            which = "is a feature store" if folder == target else f"lies in the feature store {folder}"
            raise _refused("conflict", place, path, which, "choose a path outside of stores")


@contextlib.contextmanager
def _created(path: Path, place: str) -> Iterator[None]:
    """Creates a folder with its parents; removes at the end those that did not exist."""
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise _unwritable(place, path, error) from error
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):  # absent, or in use by another process
                folder.rmdir()


def _probe(folder: Path, place: str) -> None:
    probe = folder / f".probe-{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(place, folder, error) from error
    finally:
        with contextlib.suppress(OSError):  # absent
            probe.unlink()


def _unwritable(place: str, path: Path, error: OSError) -> InputError:
    message = f"cannot be written ({error.strerror})"
    return _refused("unwritable", place, path, message, "free some space or choose another path")


def _refused(rule: Rule, place: str, path: Path, message: str, hint: str) -> InputError:
    return InputError(Problem(rule=rule, place=place, value=str(path), message=f"{path} {message}", hint=hint))


def check_suffix(path: Path, place: str, suffixes: Sequence[str]) -> None:
    """Checks the ending of a file's name.

    Raises:
        InputError: another ending than one of `suffixes`, such as `png`.
    """
    suffix = path.suffix.lower()
    if suffix.removeprefix(".") not in suffixes or not suffix:
        expected = f"a file name that ends in {', '.join(f'.{name}' for name in suffixes)}"
        raise InputError(Problem(rule="unsupported", place=place, value=str(path), expected=expected))

"""Files of predictions that an interrupted command does not repeat: each is complete or absent, and recorded.

`FOLDER/.mucon-predict.jsonl` has one line per written file: digests of the request, of the features and of the content.
The line is written before its file, so that a file without a line was not written by this project.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mucon.errors import InputError, Problem
from storage.fencing import machine

RECORD = ".mucon-predict.jsonl"
UNFINISHED = ".mucon-predict.writing-"
"""Beginning of the names of unfinished files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A line of the record.

    Attributes:
        file: path inside the folder.
        request: digest of the model and of what was requested of it.
        stamp: size, times and inode of the file of features; empty if they were not read from a file.
        features: digest of the features.
        sha256: digest of the content.
    """

    file: str
    request: str
    stamp: str
    features: str
    sha256: str


class OutputFolder:
    """A folder with one or more files per recording.

    Args:
        path: created when the first file is written.
        request: digest of the model and of what is requested of it.
        replace: replace existing files.

    Raises:
        InputError: a record that cannot be read.
    """

    def __init__(self, path: Path, request: str, *, replace: bool = False) -> None:
        self.path, self.request, self.replace = path, request, replace
        self.written = _read(path / RECORD)
        _remove_leftovers(path)

    def state(self, file: str, stamp: str, features: Callable[[], str]) -> str:
        """What there is of a file: `absent`, `done` (the same prediction of the same features) or `other`.

        Args:
            file: path inside the folder.
            stamp: that of the features' file, see `Written`; empty if there is none.
            features: returns the digest of the features; only called if the stamp does not decide.
        """
        path = self.path / file
        if self.replace or not os.path.lexists(path):
            return "absent"
        known = self.written.get(file)
        if known is None or known.request != self.request or known.sha256 != _digest_of(path):
            return "other"
        return "done" if (stamp and stamp == known.stamp) or features() == known.features else "other"

    def write(self, file: str, content: bytes, *, stamp: str, features: str) -> Path:
        """Writes a file.

        Args:
            file: path inside the folder.
            content: what it contains.
            stamp: as for `state`.
            features: digest of the features.

        Raises:
            InputError: the file cannot be written, exists, or leads out of the folder.
        """
        path = self.path / file
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path)):
            message = "leads out of the folder of the predictions"
            raise InputError(Problem(rule="unwritable", place=file, value=str(path), message=message))
        line = Written(
            file=file, request=self.request, stamp=stamp, features=features, sha256=hashlib.sha256(content).hexdigest()
        )
        fresh = unfinished(self.path, os.getpid())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)  # an earlier process with this id may have left a second name of a file
            fresh.write_bytes(content)
            _append(self.path / RECORD, line)
            self._publish(fresh, path)
        except OSError as error:
            message = f"cannot be written ({error.strerror})"
            raise InputError(Problem(rule="unwritable", place=str(path), value=str(path), message=message)) from error
        finally:
            with contextlib.suppress(OSError):  # absent
                fresh.unlink()
        return path

    def _publish(self, fresh: Path, path: Path) -> None:
        """Gives a complete file its name; only `replace` replaces another file, even one that has just appeared."""
        if not self.replace:
            try:
                os.link(fresh, path)
                return
            except FileExistsError as error:
                message, hint = "has been written by another process", "choose another folder or pass --replace"
                raise InputError(
                    Problem(rule="exists", place=str(path), value=str(path), message=message, hint=hint)
                ) from error
            except OSError:  # a file system without hard links
                pass
        fresh.replace(path)


def unfinished(folder: Path, process: int) -> Path:
    """The file that a process of this machine, or of this container, is writing."""
    return folder / f"{UNFINISHED}{machine()}.{process}"


def _remove_leftovers(folder: Path) -> None:
    """Removes the files that killed processes of this machine, or of this container, have left unfinished."""
    for path in folder.glob(f"{UNFINISHED}{glob.escape(machine())}.*"):
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(path.suffix[1:]), 0)
            except ProcessLookupError:
                path.unlink()


def digest(*values: object) -> str:
    """A digest of plain values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def stamp_of(path: Path) -> str:
    """Size, times and inode of a file, which change together with its content; empty if it cannot be examined."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _digest_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _read(path: Path) -> dict[str, Written]:
    """The last line of each file; a line that a killed writer left unfinished counts as absent."""
    written = {}
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        message = f"cannot be read ({error.strerror})"
        raise InputError(Problem(rule="unreadable", place=str(path), value=str(path), message=message)) from error
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            one = Written(**json.loads(line))
            written[one.file] = one
    return written


def _append(path: Path, line: Written) -> None:
    """Adds a line by one write, on a line of its own also after an unfinished one."""
    with path.open("ab+") as file:
        file.seek(0, os.SEEK_END)
        torn = False
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read() != b"\n"
        file.write(b"\n" * torn + json.dumps(asdict(line)).encode() + b"\n")

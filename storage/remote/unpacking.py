"""Unpacks archives of strangers: no path outside the folder, no link, no more than the archive states."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from storage.errors import Problem, StoreError, counted, some
from storage.folders import StagedFolder

CHUNK_BYTES = 2**20
MOST_RATIO = 20
"""Unpacked bytes per byte of an archive; features hardly become smaller, so that more is an attack or an accident."""
IGNORED = ("__MACOSX", ".DS_Store")


def unpack(
    archive: Path, target: Path, *, root: str, say: Callable[[str], None], progress: Callable[[str, int, int], None]
) -> None:
    """Unpacks the folder of a zip archive that contains a certain file.

    Args:
        archive: the archive.
        target: the new folder, which appears with all of its files; it may exist if it is empty.
        root: name of a file in the folder.
        say: receives lines for the user.
        progress: receives what is done, the bytes that are done and all bytes.

    Raises:
        StoreError: an unreadable or unsafe archive, one without that file, or too little space.
    """
    place = str(archive)
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _checked(opened, place)
            chosen = _below_root(members, root, place, say)
            total = sum(member.file_size for member in chosen.values())
            _check_size(total, archive, target)
            staged = StagedFolder(target, marker=root, replace=False)
            try:
                done = 0
                for path, member in chosen.items():
                    done = _extract(opened, member, staged.path / path, done, total, progress)
                staged.publish()
            except BaseException:
                staged.discard()
                raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        message = f"cannot unpack: {error}"
        raise StoreError(Problem(rule="unreadable", place=place, value=str(error), message=message)) from error
    except OSError as error:
        message, hint = f"cannot unpack ({error.strerror or error})", "the archive is kept; run the same command again"
        raise StoreError(
            Problem(rule="unwritable", place=str(target), value=error.strerror, message=message, hint=hint)
        ) from error


def _checked(opened: zipfile.ZipFile, place: str) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """The files of an archive by their paths.

    Raises:
        StoreError: one problem per path outside the folder, link, encrypted file or path that occurs twice.
    """
    members: dict[PurePosixPath, zipfile.ZipInfo] = {}
    problems = []
    for member in opened.infolist():
        path = PurePosixPath(member.filename)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename:
            message = f"a path outside the folder: {member.filename!r}"
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            message = f"a link or a special file: {member.filename!r}"
        elif member.flag_bits & 1:
            message = f"an encrypted file: {member.filename!r}"
        elif path in members and not member.is_dir():
            message = f"a path that occurs twice: {member.filename!r}"
        else:
            if not member.is_dir() and not set(path.parts) & set(IGNORED):
                members[path] = member
            continue
        problems.append(Problem(rule="unsupported", place=place, value=member.filename, message=message))
    if problems:
        raise StoreError(problems)
    return members


def _below_root(
    members: dict[PurePosixPath, zipfile.ZipInfo], root: str, place: str, say: Callable[[str], None]
) -> dict[PurePosixPath, zipfile.ZipInfo]:
    folders = sorted((path.parent for path in members if path.name == root), key=lambda path: len(path.parts))
    if not folders:
        message = f"contains no {root}: {some(members)}"
        raise StoreError(Problem(rule="missing", place=place, value=root, message=message))
    chosen = {path.relative_to(folders[0]): one for path, one in members.items() if path.is_relative_to(folders[0])}
    if left := len(members) - len(chosen):
        say(f"left out: {counted(left, 'file')} outside the folder {folders[0]}/ of the archive")
    return chosen


def _check_size(total: int, archive: Path, target: Path) -> None:
    size, free = archive.stat().st_size, shutil.disk_usage(archive.parent).free
    if total > MOST_RATIO * size:
        message = f"would become {total:,} bytes, more than {MOST_RATIO} times its size"
        raise StoreError(Problem(rule="range", place=str(archive), value=total, message=message))
    if total > free:
        message, hint = (
            f"{free:,} bytes are free, but its files need {total:,}",
            "make room; run the same command again",
        )
        raise StoreError(Problem(rule="unwritable", place=str(target), value=free, message=message, hint=hint))


def _extract(
    opened: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    path: Path,
    done: int,
    total: int,
    progress: Callable[[str, int, int], None],
) -> int:
    """Writes a file, at most the bytes that the archive states, and returns the bytes that are done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(member) as source, path.open("xb") as file:
        while chunk := source.read(CHUNK_BYTES):  # zipfile stops at the stated size, and compares the checksum
            file.write(chunk)
            done += len(chunk)
            progress("unpacking", done, total)
        file.flush()
        os.fsync(file.fileno())
    return done

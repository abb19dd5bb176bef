"""Names of clips and split parts as names of files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from storage.errors import Problem, condensed
from storage.names import normal

LONGEST_NAME = 255
"""Bytes of a file name, on all common file systems."""
LONGEST_PATH = 4096 - 64
_SUFFIXES = (".npy", ".txt")
_PART = re.compile(r"[^.:/\s]+:[^:/\s]+")


def id_file_problems(ids: Iterable[str], target: Path) -> list[Problem]:
    """Reports ids that cannot be paths of files below a folder, or that a reader would take for others.

    Ids that differ in case only are refused on every file system, so that the folder can be copied anywhere.

    Args:
        ids: ids of the clips.
        target: folder that will contain a folder of the files.
    """
    room = LONGEST_PATH - len(os.fsencode(target))
    problems: list[Problem] = []
    taken: dict[str, tuple[str, str]] = {}
    for video in ids:
        if expected := next(_unfit(video, room), ""):
            problems.append(Problem(rule="unsupported", place="id", value=video, expected=expected))
            continue
        paths = [f"{folder}/" for folder in PurePosixPath(video).parents if folder.name]
        paths += [f"{video}{suffix}" for suffix in _SUFFIXES]
        for path in paths:
            before, other = taken.setdefault(path.rstrip("/").casefold(), (path, video))
            if before != path:
                message = f"{video!r} and {other!r} need files whose names differ in case only, or not at all"
                problems.append(Problem(rule="conflict", place="id", value=video, message=message))
                break
    return condensed(problems)


def _unfit(video: str, room: int) -> Iterator[str]:
    """Yields what is expected of an id and does not hold."""
    parts = video.split("/")
    if video.startswith("/") or ".." in parts:
        yield "a path inside the folder of the files"
    if PurePosixPath(video).as_posix() != video or any(part.startswith(".") for part in parts):
        yield "a path without empty or hidden parts"
    if "\\" in video:
        yield "a path without backslashes, which separate folders elsewhere"
    if normal(video) != video:
        yield "Unicode normal form C"
    if video.lower().endswith(_SUFFIXES):
        yield f"a name without the suffix {' or '.join(_SUFFIXES)}"
    if max(len(os.fsencode(part)) for part in parts) + len(_SUFFIXES[0]) > LONGEST_NAME:
        yield f"file names of at most {LONGEST_NAME} bytes"
    if len(os.fsencode(video)) > room:
        yield f"a path of at most {room} bytes"


def bundle_name(part: str) -> str | None:
    """Returns the name of the file with the clips of a split part, None if a reader would find another part in it.

    >>> bundle_name("1:train"), bundle_name("1:Train")
    ('train.split1.bundle', None)
    """
    split, _, name = part.partition(":")
    file = f"{name}.split{split}.bundle"
    fits = _PART.fullmatch(f"{name}:{split}") and file == file.lower() and normal(file) == file
    return file if fits and not file.startswith(".") and len(os.fsencode(file)) <= LONGEST_NAME else None

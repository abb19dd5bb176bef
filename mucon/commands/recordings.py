"""The recordings that `mucon predict` reads: files, folders, patterns, standard input, or a part of a store."""

from __future__ import annotations

import glob
import io
import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.errors import InputError, Problem
from storage.feature_files import NAMELESS, SUFFIXES
from storage.layouts.text import closed_folder, visible_files

if TYPE_CHECKING:
    from mucon.videos import Video
    from storage import Store

STANDARD_INPUT = Path("-")
MAGIC = b"\x93NUMPY"
"""First bytes of a .npy file."""
BINARY = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]")
"""Bytes that lists of paths do not contain; the kinds of feature files have some at their beginning."""
BEGIN = 256
"""Bytes of standard input in which they are looked for."""
IN_FOLDERS = tuple(suffix for suffix in SUFFIXES if suffix != ".csv")
KEYED = tuple(suffix for suffix in SUFFIXES if suffix not in NAMELESS)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording that has not been read yet.

    Attributes:
        id: distinct among all recordings.
        place: its file, or its id in a store; names it in problems.
        load: reads the features.
        file: the file of the features; None if they are not in a file of their own.
    """

    id: str
    place: str
    load: Callable[[], Video]
    file: Path | None = None


def recordings_of_files(paths: Iterable[Path], key: str | None = None) -> list[Recording]:
    """The recordings of files, of all visible feature files below folders, and of patterns such as `*/x_*.npy`.

    Tables of other contents may be in the same folder, so that .csv files must be given by name or by a pattern.

    `-` is standard input: one array as .npy, or a list of paths, one per line or separated by null characters.

    A file that occurs twice is read once. The id is the file's name without its suffix, and as much of its path as
    distinguishes files of the same name.

    Args:
        paths: files, folders, patterns and `-`.
        key: name of the array in files with several arrays.

    Raises:
        InputError: one problem per folder or pattern without files, an empty standard input, or a key although no file
            has names.
    """
    problems: list[Problem] = []
    files: dict[str, Path] = {}
    given = list(paths)
    streams: list[Recording] = []
    if STANDARD_INPUT in given:
        named, streams = _standard_input()
        at = given.index(STANDARD_INPUT)
        given[at : at + 1] = named
    for path in given:
        found = list(_files(path))
        files.update({os.path.abspath(file): file for file in found})  # noqa: PTH100  # keeps links
        if not found:
            expected = f"at least one feature file ({', '.join(IN_FOLDERS)})"
            problems.append(Problem(rule="missing", place=str(path), value=str(path), expected=expected))
    if key is not None and all(file.suffix.lower() not in KEYED for file in files.values()):
        message = f"only {', '.join(KEYED)} files have arrays with names"
        problems.append(Problem(rule="conflict", place="--key", value=key, message=message, hint="leave it out"))
    if problems:
        raise InputError(problems)
    of_files = [
        Recording(id, str(file), partial(_read, file, key), file) for id, file in distinct_ids(files.values()).items()
    ]
    return [*of_files, *streams]


def _standard_input() -> tuple[list[Path], list[Recording]]:
    """The paths, or the recording, that standard input contains.

    Raises:
        InputError: it is empty, or a feature file of another kind.
    """
    content = sys.stdin.buffer.read()
    if content.startswith(MAGIC):
        return [], [Recording("stdin", "standard input", partial(_read_bytes, content))]
    if BINARY.search(content, 0, BEGIN):
        expected, hint = "an array as .npy or a list of paths", "give other feature files by their names"
        value = content[: len(MAGIC)]
        raise InputError(Problem(rule="type", place="standard input", value=value, expected=expected, hint=hint))
    separator = b"\0" if b"\0" in content else b"\n"
    paths = [Path(os.fsdecode(line.rstrip(b"\r"))) for line in content.split(separator) if line.strip()]
    if not paths:
        expected = "an array as .npy or a list of paths"
        raise InputError(Problem(rule="missing", place="standard input", expected=expected))
    return paths, []


def _read_bytes(content: bytes) -> Video:
    from mucon.library import read_array
    from mucon.videos import Video

    return Video.from_arrays("standard input", read_array(io.BytesIO(content), "standard input"))


def _files(path: Path) -> Iterator[Path]:
    if os.path.isdir(path):  # noqa: PTH112  # raises nothing, even for a name that is too long
        files = sorted(file for file in visible_files(path, _refuse) if file.suffix.lower() in IN_FOLDERS)
        yield from (file for file in files if file.is_file() or not file.exists())  # a link to nothing is missing
    elif os.path.lexists(path) or not glob.has_magic(str(path)):
        yield path
    else:
        for found in sorted(glob.glob(str(path), recursive=True)):  # noqa: PTH207  # of any folder
            yield from _files(Path(found))


def _refuse(error: OSError) -> None:
    raise InputError(closed_folder(error))


def _read(file: Path, key: str | None) -> Video:
    from mucon.library import read_features
    from mucon.videos import Video

    return Video.from_arrays(str(file), read_features(file, key))


def distinct_ids(files: Iterable[Path]) -> dict[str, Path]:
    """Files by the shortest ends of their paths, without suffix, that distinguish files of the same name.

    Args:
        files: distinct paths.

    >>> list(distinct_ids(map(Path, ("/x/a.npy", "/x/b.npy"))))
    ['a', 'b']
    >>> list(distinct_ids(map(Path, ("/1/x/a.npy", "/2/x/a.npy", "/2/y/a.npy", "/2/y/b.npy"))))
    ['1/x/a', '2/x/a', 'y/a', 'b']
    """
    whole = {file: Path(os.path.abspath(file)) for file in files}  # noqa: PTH100  # keeps links
    ids = {file: path.stem for file, path in whole.items()}
    for length in itertools.count(2):
        repeated = {id for id, n in Counter(ids.values()).items() if n > 1}
        if not repeated:
            break
        for file, path in whole.items():
            if ids[file] in repeated:
                known = path if length >= len(path.parts) else path.with_suffix("")
                ids[file] = "/".join(known.parts[1:][-length:])
    return {id: file for file, id in ids.items()}


def recordings_of_store(store: Store, split: str, part: str) -> list[Recording]:
    """The recordings of one part of a split.

    Raises:
        InputError: no such split or part, or one without recordings.
    """
    from mucon.videos import videos_of

    videos = videos_of(store, split, part)
    if not videos:
        raise InputError(Problem(rule="missing", place="--part", value=part, message="no recording in this part"))
    return [Recording(video.id, video.id, partial(_itself, video)) for video in videos]


def _itself(video: Video) -> Video:
    return video

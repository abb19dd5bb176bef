"""Text files of datasets, independent of line ends, byte order marks, trailing blanks and Unicode's forms."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from storage.errors import Problem, StoreError, condensed, some
from storage.feature_files import PICKLES, SUFFIXES
from storage.names import normal


def read_lines(path: Path) -> list[str]:
    """Returns the lines in `normal` form, see `plain_lines`.

    Raises:
        StoreError: see `plain_lines`.
    """
    return _without_blank_end(normal(line).strip() for line in plain_lines(path))


def plain_lines(path: Path) -> list[str]:
    """Returns the lines without surrounding blanks, byte order mark, CR and trailing blank lines.

    Blank lines between others are kept as empty strings; the caller decides what they mean.

    Raises:
        StoreError: the file cannot be read, is not UTF-8 or is a pointer of Git LFS.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise StoreError(
            Problem(
                rule="unreadable",
                place=str(path),
                value=error.strerror,
                message=f"cannot read the file ({error.strerror})",
            )
        ) from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise StoreError(
            Problem(
                rule="unreadable",
                place=f"{path}, byte {error.start}",
                value=byte,
                message=f"{byte:#04x} is not valid UTF-8",
                hint="convert the file to UTF-8",
            )
        ) from error
    if text.startswith("version https://git-lfs"):
        message, hint = "a pointer of Git LFS", "fetch the file itself with `git lfs pull`"
        raise StoreError(Problem(rule="type", place=str(path), value=text[:7], message=message, hint=hint))
    return _without_blank_end(line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def _without_blank_end(lines: Iterable[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept


_SUFFIXES = (".txt", *SUFFIXES, *PICKLES)


def bare(name: str) -> str:
    r"""Returns the name of a clip without the suffix of a label or feature file, with forward slashes.

    >>> bare(r"P03\cam01.txt"), bare("P03/cam01"), bare("./a.b.npy")
    ('P03/cam01', 'P03/cam01', 'a.b')
    """
    plain = _path(name)
    suffix = next((suffix for suffix in _SUFFIXES if plain.lower().endswith(suffix)), "")
    return plain[: len(plain) - len(suffix)]


def _path(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).as_posix()


def visible_files(folder: Path, on_error: Callable[[OSError], object]) -> Iterator[Path]:
    """Yields the files below a folder that are not hidden, nor in a hidden folder, in a fixed order.

    Links are followed, but no folder is entered twice.

    Args:
        folder: folder to search.
        on_error: called for each folder that cannot be read.
    """
    entered: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=on_error):
        if (real := os.path.realpath(parent)) in entered:
            folders.clear()
            continue
        entered.add(real)
        visible = [Path(parent, name) for name in folders if not name.startswith(".")]
        folders[:] = [path.name for path in sorted(visible, key=lambda path: (path.is_symlink(), path.name))]
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def find_files(folder: Path, suffix: str | tuple[str, ...], problems: list[Problem]) -> dict[str, Path]:
    """Returns all files with a suffix below a folder by their `bare` name in `normal` form, sorted.

    Args:
        folder: folder to search, see `visible_files`.
        suffix: last characters of the file names in lower case, such as `.npy`; or several of them.
        problems: receives a problem for each folder that cannot be read, each file with the name of another, and each
            pipe or device.
    """
    files: dict[str, Path] = {}
    found: list[Problem] = []
    for path in visible_files(folder, lambda error: found.append(closed_folder(error))):
        if not path.name.lower().endswith(suffix):
            continue
        video = bare(normal(path.relative_to(folder).as_posix()))
        if video in files:
            message = f"{path.name} and {files[video].name} are both files of the video {video!r}"
            hint = "keep one of them, or rename one"
            found.append(Problem(rule="duplicate", place=str(path), value=video, message=message, hint=hint))
        elif path.exists() and not path.is_file():
            message, hint = "a pipe or a device, which may have no end", "copy its content to a file"
            found.append(Problem(rule="type", place=str(path), message=message, hint=hint))
        else:
            files[video] = path
    problems += condensed(found)
    return dict(sorted(files.items()))


def closed_folder(error: OSError) -> Problem:
    """Returns the problem of a folder that cannot be read."""
    message = f"cannot read the folder ({error.strerror})"
    return Problem(rule="unreadable", place=str(error.filename), value=error.strerror, message=message)


def other_files(folder: Path, suffix: str | tuple[str, ...]) -> str:
    """Returns how many visible files below a folder have another suffix, such as `3 .npz`; empty if there are none."""
    paths = [path for path in folder.rglob("[!.]*") if path.is_file() and not path.name.lower().endswith(suffix)]
    kinds = Counter(path.suffix.lower() or "without suffix" for path in paths)
    return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())


@dataclass(slots=True)
class Names:
    """Finds clips by the names that other files use for them: the same path, or a path with the same end.

    >>> Names(("P03/cam01", "P04/cam01", "P04/cam02")).find("cam02.txt")
    ('P04/cam02',)

    Args:
        ids: names of the clips.
    """

    ids: Iterable[str]
    _by_last: dict[str, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for video in self.ids:
            self._by_last.setdefault(video.rsplit("/", 1)[-1], []).append(video)

    def find(self, name: str) -> tuple[str, ...]:
        """Returns the clips that match a name: none if it is unknown, several if it is ambiguous."""
        plain = _path(normal(name))  # the name of a clip may end like that of a file
        return self._ending(plain) or self._ending(bare(plain))

    def _ending(self, wanted: str) -> tuple[str, ...]:
        similar = self._by_last.get(wanted.rsplit("/", 1)[-1], [])
        if wanted in similar:
            return (wanted,)
        return tuple(
            video for video in similar if f"/{wanted}".endswith(f"/{video}") or f"/{video}".endswith(f"/{wanted}")
        )


def matching_notes(place: str, matches: Mapping[str, str]) -> list[str]:
    """Returns notes about names that find their clips without a folder, with another one, or without a suffix.

    `.txt` is how bundles end the names of all clips, so it is not noted.

    Args:
        place: where the names are.
        matches: clips by the names that were found.

    >>> matching_notes("x.bundle", {"a.txt": "a", "x/b": "b", "c.npy": "c"})
    ['x.bundle: compared by the end of their path (1): x/b -> b', 'x.bundle: read without their suffix (1): c.npy -> c']
    """
    changed = {name: video for name, video in matches.items() if _path(normal(name)) != video}
    ends = [f"{name} -> {video}" for name, video in changed.items() if bare(normal(name)) != video]
    suffixed = [
        f"{name} -> {video}"
        for name, video in changed.items()
        if name.lower().endswith(_SUFFIXES) and not name.endswith(".txt")
    ]
    kinds = (("compared by the end of their path", ends), ("read without their suffix", suffixed))
    return [f"{place}: {what} ({len(found)}): {some(found, 3)}" for what, found in kinds if found]

"""Text files of datasets, independent of line ends, byte order marks and trailing blanks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from storage.errors import Problem, StoreError


def read_lines(path: Path) -> list[str]:
    """Returns the lines without surrounding blanks, byte order mark, CR and trailing blank lines.

    Blank lines between others are kept as empty strings; the caller decides what they mean.

    Raises:
        StoreError: the file cannot be read or is not UTF-8.
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
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_SUFFIXES = (".txt", ".npy")


def bare(name: str) -> str:
    r"""Returns the name of a clip without the suffix of a label or feature file, with forward slashes.

    >>> bare(r"P03\cam01.txt"), bare("P03/cam01"), bare("./a.b.npy")
    ('P03/cam01', 'P03/cam01', 'a.b')
    """
    plain = PurePosixPath(name.replace("\\", "/")).as_posix()
    return plain[:-4] if plain[-4:].lower() in _SUFFIXES else plain


def find_files(folder: Path, suffix: str) -> dict[str, Path]:
    """Returns all files with a suffix below a folder by their `bare` name, sorted; hidden files are skipped."""
    files = {}
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.lower().endswith(suffix):
                path = Path(parent, name)
                files[bare(path.relative_to(folder).as_posix())] = path
    return dict(sorted(files.items()))


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
        wanted = bare(name)
        similar = self._by_last.get(wanted.rsplit("/", 1)[-1], [])
        if wanted in similar:
            return (wanted,)
        return tuple(
            video for video in similar if f"/{wanted}".endswith(f"/{video}") or f"/{video}".endswith(f"/{wanted}")
        )

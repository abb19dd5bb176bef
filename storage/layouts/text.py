"""Text files of data sets: whatever line ends, marks and blanks the editor has left."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from storage.errors import StoreError


def read_lines(path: Path) -> list[str]:
    """The lines without blanks at their ends, byte order mark, CR and blank last lines.

    A blank line between others is kept, as an empty string: whether it means something is for the caller to say.

    Raises:
        StoreError: the file cannot be read or is no UTF-8 text.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): see to it") from error
    except UnicodeDecodeError as error:
        raise StoreError(
            f"a text file is UTF-8, {path} is not (byte {error.start} is {error.object[error.start]:#04x}): convert it"
        ) from error
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_SUFFIXES = (".txt", ".npy")


def bare(name: str) -> str:
    r"""A clip's name without the suffix of a label or feature file, whichever slashes it has.

    >>> bare(r"P03\cam01.txt"), bare("P03/cam01"), bare("./a.b.npy")
    ('P03/cam01', 'P03/cam01', 'a.b')
    """
    plain = PurePosixPath(name.replace("\\", "/")).as_posix()
    return plain[:-4] if plain[-4:].lower() in _SUFFIXES else plain


def find_files(folder: Path, suffix: str) -> dict[str, Path]:
    """Files with that suffix in the folder and the folders in it, by their name (`bare`), sorted; hidden ones not."""
    found = {}
    for where, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.lower().endswith(suffix):
                path = Path(where, name)
                found[bare(path.relative_to(folder).as_posix())] = path
    return dict(sorted(found.items()))


@dataclass(slots=True)
class Names:
    """Finds the clip that a name from another file means: the same path, or one that ends like it.

    >>> Names(("P03/cam01", "P04/cam01", "P04/cam02")).find("cam02.txt")
    ('P04/cam02',)

    Args:
        ids: the clips' names.
    """

    ids: Iterable[str]
    _by_last: dict[str, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for video in self.ids:
            self._by_last.setdefault(video.rsplit("/", 1)[-1], []).append(video)

    def find(self, name: str) -> tuple[str, ...]:
        """The clips that can be meant: one where all is well, none or several where not."""
        wanted = bare(name)
        similar = self._by_last.get(wanted.rsplit("/", 1)[-1], [])
        if wanted in similar:
            return (wanted,)
        return tuple(
            video for video in similar if f"/{wanted}".endswith(f"/{video}") or f"/{video}".endswith(f"/{wanted}")
        )

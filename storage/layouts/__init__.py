"""Data sets as people have them on disk: each layout lists its clips, checks everything, then hands them over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

LengthPolicy = Literal["error", "crop", "resample"]
LENGTH_POLICIES: tuple[LengthPolicy, ...] = ("error", "crop", "resample")
Orientation = Literal["TxD", "DxT"]
ORIENTATIONS: tuple[Orientation, ...] = ("TxD", "DxT")
Progress = Callable[[str, int, int], None]
"""Is told what is being done, how many clips are done and how many there are."""


def no_progress(what: str, done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One clip as a layout hands it to the writer; the fields are those of `StoreWriter.add`."""

    id: str
    features: NDArray[Any]
    transcript: tuple[int, ...] | None
    lengths: tuple[int, ...] | None
    splits: tuple[str, ...]
    group: str | None
    activity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a data set is, known before anything is written.

    Attributes:
        dim: D.
        dtype: of the store to be written.
        vocabulary: action names, id `n` is `vocabulary[n]`.
        background: names among them.
        n_videos: clips.
        notes: lines that the user should see: what was recognised, cropped, renumbered or looks odd.
        metadata: facts about the import that the store keeps.
    """

    dim: int
    dtype: str
    vocabulary: tuple[str, ...]
    background: tuple[str, ...]
    n_videos: int
    notes: tuple[str, ...]
    metadata: dict[str, Any]


class Layout(Protocol):
    """A data set on disk."""

    name: str

    def survey(self, progress: Progress = no_progress) -> Survey:
        """Looks at every file.

        Raises:
            StoreError: all problems of the data set.
        """
        ...

    def clips(self) -> Iterator[Clip]:
        """The clips in the order of their ids; after `survey`."""
        ...

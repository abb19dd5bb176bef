"""Dataset layouts: each layout validates a dataset on disk, then yields its clips.

Imports neither numpy nor pyarrow, so that command line parsers start fast.
"""

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
"""Called with the current activity, the number of finished items and their total."""


def no_progress(what: str, done: int, total: int) -> None:
    """Reports nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One clip for `StoreWriter.add_clip`; the fields are the arguments of `StoreWriter.add`."""

    id: str
    features: NDArray[Any]
    transcript: tuple[int, ...] | None
    lengths: tuple[int, ...] | None
    splits: tuple[str, ...]
    group: str | None
    activity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Properties of a dataset that are known before anything is written.

    Attributes:
        dim: D.
        dtype: dtype of the store to be written.
        vocabulary: action names; the id of an action is its index.
        background: names of the background actions.
        n_videos: number of clips.
        notes: messages for the user about assumptions, changes and suspicious data.
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
    """A dataset on disk."""

    name: str

    def survey(self, progress: Progress = no_progress) -> Survey:
        """Reads and validates every file.

        Raises:
            StoreError: the dataset is invalid (all problems).
        """
        ...

    def clips(self) -> Iterator[Clip]:
        """Yields the clips in the order of their ids; call `survey` first."""
        ...

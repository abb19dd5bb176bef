"""Dataset layouts: each layout validates a dataset on disk, then yields its clips.

Imports neither numpy nor pyarrow, so that command line parsers start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

LengthPolicy = Literal["error", "crop", "resample"]
LENGTH_POLICIES: tuple[LengthPolicy, ...] = ("error", "crop", "resample")
Orientation = Literal["TxD", "DxT"]
ORIENTATIONS: tuple[Orientation, ...] = ("TxD", "DxT")
Unit = Literal["seconds", "frames"]
UNITS: tuple[Unit, ...] = ("seconds", "frames")
Progress = Callable[[str, int, int], None]
"""Called with the current activity, the number of finished items and their total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import, for all layouts; a layout refuses those that it does not use.

    Attributes:
        background: names of the actions that mean "nothing of interest".
        dtype: dtype of the store; default: the widest dtype of the files.
        key: name of the array in feature files with named arrays; default: each contains one array.
        orientation: orientation of the files; default: inferred.
        length_policy: treatment of features and labels that differ by more than `length_tolerance` frames: `error`
            refuses them, `crop` drops the last frames of the longer, `resample` assigns each frame of the features the
            label at its relative position. Smaller differences are cropped. Each difference is noted.
        length_tolerance: in frames, at least 0.
        sample_rate: K keeps frames 0, K, 2K, ... of features and labels; at least 1.
        fill: action of the frames between, before and after segments with times; default: such gaps are refused.
        unit: unit of the times of segments in a table whose columns do not name it.
        fps: frames per second of the feature files, for segments with times in seconds.
        group_regex: regular expression that extracts the group of a clip from its name: the first group of the
            expression, or the whole match.
        activity_regex: likewise for the activity.
    """

    background: tuple[str, ...] = ()
    dtype: str | None = None
    key: str | None = None
    orientation: Orientation | None = None
    length_policy: LengthPolicy = "error"
    length_tolerance: int = 0
    sample_rate: int = 1
    fill: str | None = None
    unit: Unit | None = None
    fps: float | None = None
    group_regex: str | None = None
    activity_regex: str | None = None


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
        sample_rate: each frame of the store stands for this many frames of the files.
        times: fps, window, stride and offset of the feature files, as far as the dataset has them.
    """

    dim: int
    dtype: str
    vocabulary: tuple[str, ...]
    background: tuple[str, ...]
    n_videos: int
    notes: tuple[str, ...]
    metadata: dict[str, Any]
    sample_rate: int = 1
    times: Mapping[str, float] = field(default_factory=dict)


class Layout(Protocol):
    """A dataset on disk."""

    def survey(self, progress: Progress = no_progress, *, values: bool = True) -> Survey:
        """Reads and validates every file.

        Args:
            progress: called for each clip whose values are checked.
            values: whether to check the values of the features; `StoreWriter.prepare` checks them as well.

        Raises:
            StoreError: the dataset is invalid (all problems).
        """
        ...

    def clips(self) -> Iterator[Clip]:
        """Yields the clips in the order of their ids; call `survey` first."""
        ...

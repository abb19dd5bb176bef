"""The layout of MS-TCN's data sets.

`features/*.npy` (`[T D]` or `[D T]`), `groundTruth/*.txt` (a name per frame), `mapping.txt` (`id name`) and
`splits/PART.splitK.bundle` (a clip's name per line). Folders may be nested.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from storage.arrays import value_problems
from storage.constants import DTYPES
from storage.errors import StoreError, some
from storage.layouts import Clip, LengthPolicy, Orientation, Progress, Survey, no_progress
from storage.layouts.labels import Labels, fitted, read_labels
from storage.layouts.mapping import vocabulary_of
from storage.layouts.npy import Header, dim_problems, open_npy, orientation_of, read_header, widest_dtype
from storage.layouts.splits import Splits, absent_actions, read_splits
from storage.layouts.text import Names, find_files
from storage.rules import shape_problems

Value = TypeVar("Value")
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MsTcnOptions:
    """Choices of an import.

    Attributes:
        background: names of the actions that stand for "nothing of interest".
        dtype: of the store, None to keep what is found (the widest, where files differ).
        orientation: of the files, None to find out.
        length_policy: what to do where features and labels differ by more than `length_tolerance` frames: `error`
            refuses, `crop` drops the last frames of the longer, `resample` gives each frame of the features the label
            at its relative place. Smaller differences are cropped. Every difference is noted.
        length_tolerance: frames.
        group_regex: finds a clip's group in its id: the first group of the expression, or its whole match.
        activity_regex: likewise its activity.
    """

    background: tuple[str, ...] = ()
    dtype: str | None = None
    orientation: Orientation | None = None
    length_policy: LengthPolicy = "error"
    length_tolerance: int = 0
    group_regex: str | None = None
    activity_regex: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What the survey knows of a clip."""

    path: Path
    frames: int
    labels: Labels
    group: str | None
    activity: str | None


class MsTcn:
    """A data set in this layout.

    Args:
        source: its folder.
        options: the choices.
    """

    name = "ms-tcn"

    def __init__(self, source: Path, options: MsTcnOptions | None = None) -> None:
        self.source = source
        self.options = options or MsTcnOptions()
        self._orientation: Orientation = "TxD"
        self._actions: dict[str, int] = {}
        self._found: dict[str, _Found] = {}
        self._splits = Splits()
        self._names: tuple[str, ...] = ()

    def survey(self, progress: Progress = no_progress) -> Survey:
        """Looks at every file, features included.

        Raises:
            StoreError: all problems of the data set.
        """
        self._check_options()
        problems: list[str] = []
        notes: list[str] = []
        paths, labels = self._paired(problems)
        headers = _collected(problems, paths, read_header)
        runs = _collected(problems, labels, read_labels)
        vocabulary = vocabulary_of(
            self.source / "mapping.txt", runs, labels, self.options.background, problems=problems, notes=notes
        )
        self._actions = {name: index for index, name in enumerate(vocabulary)}
        dtype, dim = self._shapes(headers, runs, problems, notes)
        self._fit(paths, headers, runs, problems, notes)
        for option, regex in (("group", self.options.group_regex), ("activity", self.options.activity_regex)):
            problems += _unmatched_problems(option, regex, paths)
        for done, video in enumerate(headers, 1):
            kept = self._found[video].frames if video in self._found else None
            problems += value_problems(self._features(paths[video], kept), dtype, video)
            progress("checking", done, len(headers))
        self._splits = read_splits(self.source / "splits", Names(self._names))
        problems += self._splits.problems
        if problems:
            raise StoreError(problems)
        notes += self._splits.notes
        notes += absent_actions(self._splits, {video: frozenset(found.names) for video, found in runs.items()})
        outside = [video for video in paths if not self._splits.of(video)]
        if outside and self._splits.parts:
            notes.append(f"{len(outside)} videos stand in no split: {some(outside, _SHOWN)}")
        return Survey(
            dim=dim,
            dtype=dtype,
            vocabulary=vocabulary,
            background=self.options.background,
            n_videos=len(paths),
            notes=tuple(notes),
            metadata={
                "layout": self.name,
                "orientation": self._orientation,
                "length_policy": self.options.length_policy,
                "length_tolerance": self.options.length_tolerance,
            },
        )

    def clips(self) -> Iterator[Clip]:
        """The clips in the order of their ids; after `survey`."""
        for video, found in sorted(self._found.items()):
            yield Clip(
                id=video,
                features=self._features(found.path, found.frames),
                transcript=tuple(self._actions[name] for name in found.labels.names),
                lengths=found.labels.lengths,
                splits=self._splits.of(video),
                group=found.group,
                activity=found.activity,
            )

    def _check_options(self) -> None:
        if not self.source.is_dir():
            raise StoreError(f"a data set is a folder, {self.source} is none: name the folder that has features/")
        problems = [
            f"this layout has features/ and groundTruth/, {self.source} has no {name}/: name the folder that has both"
            for name in ("features", "groundTruth")
            if not (self.source / name).is_dir()
        ]
        for option, regex in (("group", self.options.group_regex), ("activity", self.options.activity_regex)):
            try:
                re.compile(regex or "")
            except re.error as error:
                problems.append(f"--{option}-regex is a regular expression, {regex!r} is not ({error}): correct it")
        if self.options.dtype not in (None, *DTYPES):
            problems.append(f"a store's dtype is one of {', '.join(DTYPES)}, not {self.options.dtype!r}: choose one")
        if self.options.length_tolerance < 0:
            problems.append(
                f"a tolerance is at least 0 frames, --length-tolerance is {self.options.length_tolerance}: correct it"
            )
        if problems:
            raise StoreError(problems)

    def _paired(self, problems: list[str]) -> tuple[dict[str, Path], dict[str, Path]]:
        """Feature and label files of each clip, both by the feature file's name."""
        features = find_files(self.source / "features", ".npy")
        texts = find_files(self.source / "groundTruth", ".txt")
        names = Names(features)
        labels: dict[str, Path] = {}
        alone = []
        for name, path in texts.items():
            videos = names.find(name)
            if len(videos) == 1 and videos[0] not in labels:
                labels[videos[0]] = path
            else:
                alone.append(name)
        self._names = (*features, *alone)  # what lacks its other half is told once, not in each split again
        if not features:
            problems.append(f"a data set has features, {self.source / 'features'} has no .npy file: put them there")
        for kind, other, missing in (
            ("features", "labels", [video for video in features if video not in labels]),
            ("labels", "features", alone),
        ):
            if missing:
                problems.append(
                    f"a video has features and labels, {len(missing)} in {self.source} have {kind} without {other}: "
                    f"{some(missing, _SHOWN)}; add or remove them"
                )
        return {video: path for video, path in features.items() if video in labels}, labels

    def _shapes(
        self, headers: dict[str, Header], runs: dict[str, Labels], problems: list[str], notes: list[str]
    ) -> tuple[str, int]:
        """The store's dtype and D; files that are no clip of it leave `headers`."""
        dtype, dim = self.options.dtype or DTYPES[0], 0
        flat = {video: header.shape for video, header in headers.items() if len(header.shape) == 2}
        try:
            dtype = self.options.dtype or widest_dtype(headers)
            if flat:
                n_labels = {video: found.n_frames for video, found in runs.items()}
                self._orientation = self.options.orientation or orientation_of(flat, n_labels)
        except StoreError as error:
            problems += error.problems
            headers.clear()
            return dtype, dim
        if self._orientation == "DxT":
            notes.append("the features look transposed, [D T] in the files: read as [T D]")
        differing = dim_problems(flat, self._orientation)
        problems += differing.values()
        if flat:
            dim = Counter(headers[video].oriented(self._orientation)[1] for video in flat).most_common(1)[0][0]
        for video, header in list(headers.items()):
            found = shape_problems(video, header.oriented(self._orientation), header.dtype, dim, dtype)
            if found and video not in differing:
                problems += found
            if found:
                del headers[video]
        return dtype, dim

    def _features(self, path: Path, n_frames: int | None) -> NDArray[Any]:
        array = open_npy(path)
        return (array.T if self._orientation == "DxT" else array)[:n_frames]

    def _fit(
        self,
        paths: dict[str, Path],
        headers: dict[str, Header],
        runs: dict[str, Labels],
        problems: list[str],
        notes: list[str],
    ) -> None:
        """Brings features and labels to one length, and reads group and activity off the ids."""
        options = self.options
        for video, path in paths.items():
            if video not in headers or video not in runs:
                continue
            n_features = headers[video].oriented(self._orientation)[0]
            try:
                kept, labels, note = fitted(
                    video, n_features, runs[video], options.length_policy, options.length_tolerance
                )
            except StoreError as error:
                problems += error.problems
                continue
            notes += [note] if note else []
            self._found[video] = _Found(
                path, kept, labels, _matched(options.group_regex, video), _matched(options.activity_regex, video)
            )


def _matched(regex: str | None, video: str) -> str | None:
    found = re.search(regex, video) if regex else None
    return (found[1] if found.re.groups else found[0]) if found else None


def _unmatched_problems(option: str, regex: str | None, videos: Iterable[str]) -> list[str]:
    without = [video for video in videos if regex and not _matched(regex, video)]
    if not without:
        return []
    return [
        f"--{option}-regex finds the {option} in each id, {regex!r} finds none in {len(without)}: "
        f"{some(without, _SHOWN)}; correct it"
    ]


def _collected(problems: list[str], paths: dict[str, Path], read: Callable[[Path], Value]) -> dict[str, Value]:
    found = {}
    for video, path in paths.items():
        try:
            found[video] = read(path)
        except StoreError as error:
            problems += error.problems
    return found

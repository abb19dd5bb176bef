"""Layout of the MS-TCN datasets.

`features/*.npy` (`[T D]` or `[D T]`), `groundTruth/*.txt` (a label per frame), `mapping.txt` (`ID NAME`) and
`splits/PART.splitK.bundle` (a clip name per line). Folders may be nested.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from storage.constants import DTYPES
from storage.errors import Problem, StoreError, some
from storage.format.arrays import value_problems
from storage.format.rules import shape_problems
from storage.layouts import Clip, LengthPolicy, Orientation, Progress, Survey, no_progress
from storage.layouts.findings import Findings
from storage.layouts.labels import Labels, fitted, read_labels
from storage.layouts.mapping import vocabulary_of
from storage.layouts.npy import Header, dim_problems, open_npy, orientation_of, read_header, widest_dtype
from storage.layouts.splits import Splits, absent_actions, read_splits
from storage.layouts.text import Names, find_files

_MOST_NAMES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MsTcnOptions:
    """Options of an import.

    Attributes:
        background: names of the actions that mean "nothing of interest".
        dtype: dtype of the store; default: the widest dtype of the files.
        orientation: orientation of the files; default: inferred.
        length_policy: treatment of features and labels that differ by more than `length_tolerance` frames: `error`
            refuses them, `crop` drops the last frames of the longer, `resample` assigns each frame of the features the
            label at its relative position. Smaller differences are cropped. Each difference is noted.
        length_tolerance: in frames, at least 0.
        group_regex: regular expression that extracts the group of a clip from its name: the first group of the
            expression, or the whole match.
        activity_regex: likewise for the activity.
    """

    background: tuple[str, ...] = ()
    dtype: str | None = None
    orientation: Orientation | None = None
    length_policy: LengthPolicy = "error"
    length_tolerance: int = 0
    group_regex: str | None = None
    activity_regex: str | None = None


@dataclass(frozen=True, slots=True)
class _SurveyedClip:
    """Result of the survey for one clip."""

    path: Path
    frames: int
    labels: Labels
    group: str | None
    activity: str | None


class MsTcn:
    """A dataset in this layout.

    Args:
        source: folder of the dataset.
        options: options of the import.
    """

    name = "ms-tcn"

    def __init__(self, source: Path, options: MsTcnOptions | None = None) -> None:
        self.source = source
        self.options = options or MsTcnOptions()
        self._findings = Findings()
        self._orientation: Orientation = "TxD"
        self._actions: dict[str, int] = {}
        self._clips: dict[str, _SurveyedClip] = {}
        self._splits = Splits()
        self._names: tuple[str, ...] = ()

    def survey(self, progress: Progress = no_progress) -> Survey:
        """Reads and validates every file, including the features.

        Raises:
            StoreError: the dataset is invalid (all problems).
        """
        self._check_options()
        findings = self._findings = Findings()
        paths, labels = self._paired()
        headers = findings.read_all(paths, read_header)
        runs = findings.read_all(labels, read_labels)
        vocabulary = vocabulary_of(self.source / "mapping.txt", runs, labels, self.options.background, findings)
        self._actions = {name: index for index, name in enumerate(vocabulary)}
        dtype, dim = self._shapes(headers, runs)
        self._fit(paths, headers, runs)
        for option, regex in self._regexes:
            findings.problems += _unmatched_problems(option, regex, paths)
        for done, video in enumerate(headers, 1):
            frames = self._clips[video].frames if video in self._clips else None
            findings.problems += value_problems(self._features(paths[video], frames), dtype, video)
            progress("checking", done, len(headers))
        self._splits = read_splits(self.source / "splits", Names(self._names))
        findings.problems += self._splits.problems
        findings.raise_problems()
        self._note_splits(runs)
        return Survey(
            dim=dim,
            dtype=dtype,
            vocabulary=vocabulary,
            background=self.options.background,
            n_videos=len(paths),
            notes=tuple(findings.notes),
            metadata={
                "layout": self.name,
                "orientation": self._orientation,
                "length_policy": self.options.length_policy,
                "length_tolerance": self.options.length_tolerance,
            },
        )

    def clips(self) -> Iterator[Clip]:
        """Yields the clips in the order of their ids; call `survey` first."""
        for video, clip in sorted(self._clips.items()):
            yield Clip(
                id=video,
                features=self._features(clip.path, clip.frames),
                transcript=tuple(self._actions[name] for name in clip.labels.names),
                lengths=clip.labels.lengths,
                splits=self._splits.of(video),
                group=clip.group,
                activity=clip.activity,
            )

    @property
    def _regexes(self) -> tuple[tuple[str, str | None], ...]:
        return ("--group-regex", self.options.group_regex), ("--activity-regex", self.options.activity_regex)

    def _check_options(self) -> None:
        hint = "pass the folder that contains features/ and groundTruth/"
        if not self.source.is_dir():
            raise StoreError(Problem(rule="missing", place=str(self.source), message="no such folder", hint=hint))
        problems = [
            Problem(rule="missing", place=str(self.source / name), message="no such folder", hint=hint)
            for name in ("features", "groundTruth")
            if not (self.source / name).is_dir()
        ]
        for option, regex in self._regexes:
            try:
                re.compile(regex or "")
            except re.error as error:
                message = f"invalid regular expression {regex!r} ({error})"
                problems.append(Problem(rule="type", place=option, value=regex, message=message))
        if self.options.dtype not in (None, *DTYPES):
            expected = f"one of {', '.join(DTYPES)}"
            problems.append(Problem(rule="unknown", place="--dtype", value=self.options.dtype, expected=expected))
        tolerance = self.options.length_tolerance
        if tolerance < 0:
            problems.append(Problem(rule="range", place="--length-tolerance", value=tolerance, expected="at least 0"))
        if problems:
            raise StoreError(problems)

    def _paired(self) -> tuple[dict[str, Path], dict[str, Path]]:
        """Returns the feature and label files of each clip, both by the name of the feature file."""
        features = find_files(self.source / "features", ".npy")
        texts = find_files(self.source / "groundTruth", ".txt")
        names = Names(features)
        labels: dict[str, Path] = {}
        unpaired = []
        for name, path in texts.items():
            videos = names.find(name)
            if len(videos) == 1 and videos[0] not in labels:
                labels[videos[0]] = path
            else:
                unpaired.append(name)
        self._names = (*features, *unpaired)  # unpaired clips are reported once, not again for each split
        problems = self._findings.problems
        if not features:
            problems.append(
                Problem(rule="missing", place=str(self.source / "features"), expected="at least one .npy file")
            )
        unlabelled = [video for video in features if video not in labels]
        for folder, present, absent, incomplete in (
            ("groundTruth", "features", "labels", unlabelled),
            ("features", "labels", "features", unpaired),
        ):
            if incomplete:
                message = (
                    f"videos with {present} but without {absent} ({len(incomplete)}): {some(incomplete, _MOST_NAMES)}"
                )
                place = str(self.source / folder)
                problems.append(Problem(rule="missing", place=place, value=incomplete, message=message))
        return {video: path for video, path in features.items() if video in labels}, labels

    def _shapes(self, headers: dict[str, Header], runs: dict[str, Labels]) -> tuple[str, int]:
        """Returns dtype and D of the store; removes invalid files from `headers`."""
        findings = self._findings
        dtype, dim = self.options.dtype or DTYPES[0], 0
        flat = {video: header.shape for video, header in headers.items() if len(header.shape) == 2}
        try:
            dtype = self.options.dtype or widest_dtype(headers)
            if flat:
                n_labels = {video: labels.n_frames for video, labels in runs.items()}
                self._orientation = self.options.orientation or orientation_of(flat, n_labels)
        except StoreError as error:
            findings.problems += error.problems
            headers.clear()
            return dtype, dim
        if self._orientation == "DxT":
            findings.notes.append("features are transposed ([D T]) in the files; read them as [T D]")
        differing = dim_problems(flat, self._orientation)
        findings.problems += differing.values()
        if flat:
            dim = Counter(headers[video].oriented(self._orientation)[1] for video in flat).most_common(1)[0][0]
        for video, header in list(headers.items()):
            problems = shape_problems(video, header.oriented(self._orientation), header.dtype, dim, dtype)
            if problems and video not in differing:
                findings.problems += problems
            if problems:
                del headers[video]
        return dtype, dim

    def _features(self, path: Path, n_frames: int | None) -> NDArray[Any]:
        array = open_npy(path)
        return (array.T if self._orientation == "DxT" else array)[:n_frames]

    def _fit(self, paths: dict[str, Path], headers: dict[str, Header], runs: dict[str, Labels]) -> None:
        """Brings features and labels to the same length, and extracts group and activity from the names."""
        options = self.options
        for video, path in paths.items():
            if video not in headers or video not in runs:
                continue
            n_features = headers[video].oriented(self._orientation)[0]
            try:
                frames, labels, note = fitted(
                    video, n_features, runs[video], options.length_policy, options.length_tolerance
                )
            except StoreError as error:
                self._findings.problems += error.problems
                continue
            self._findings.notes += [note] if note else []
            self._clips[video] = _SurveyedClip(
                path, frames, labels, _extracted(options.group_regex, video), _extracted(options.activity_regex, video)
            )

    def _note_splits(self, runs: dict[str, Labels]) -> None:
        """Adds the notes about splits."""
        notes = self._findings.notes
        notes += self._splits.notes
        notes += absent_actions(self._splits, {video: frozenset(labels.names) for video, labels in runs.items()})
        outside = [video for video in self._clips if not self._splits.of(video)]
        if outside and self._splits.parts:
            notes.append(f"videos in no split ({len(outside)}): {some(outside, _MOST_NAMES)}")


def _extracted(regex: str | None, video: str) -> str | None:
    match = re.search(regex, video) if regex else None
    return (match[1] if match.re.groups else match[0]) if match else None


def _unmatched_problems(option: str, regex: str | None, videos: Iterable[str]) -> list[Problem]:
    unmatched = [video for video in videos if regex and not _extracted(regex, video)]
    if not unmatched:
        return []
    message = f"{regex!r} does not match these videos ({len(unmatched)}): {some(unmatched, _MOST_NAMES)}"
    return [Problem(rule="mismatch", place=option, value=unmatched, message=message)]

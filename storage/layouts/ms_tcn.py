"""Layout of the MS-TCN datasets, extended by transcripts.

`features/*.npy` (`[T D]` or `[D T]`), `groundTruth/*.txt` (a label per frame), `transcripts/*.txt` (an action per line)
or `transcripts.csv`, `mapping.txt` (`ID NAME`) and `splits/PART.splitK.bundle` (a clip name per line). Each clip of a
training part needs labels or a transcript. Folders may be nested.
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
from storage.errors import Problem, StoreError, counted, some
from storage.format.arrays import value_problems
from storage.format.rules import id_problems, shape_problems
from storage.layouts import Clip, LengthPolicy, Orientation, Progress, Survey, no_progress
from storage.layouts.annotations import LABELS, Annotations, read_annotations
from storage.layouts.findings import Findings
from storage.layouts.labels import fitted
from storage.layouts.mapping import read_mapping, vocabulary_of
from storage.layouts.npy import Header, dim_problems, open_npy, orientation_of, read_header, widest_dtype
from storage.layouts.rates import common_rates
from storage.layouts.splits import Splits, absent_actions, read_splits
from storage.layouts.text import Names, find_files, other_files
from storage.layouts.transcripts import FOLDER, TABLE, length_problems
from storage.names import normal

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

    frames: int
    names: tuple[str, ...] | None
    lengths: tuple[int, ...] | None
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
        self._background = tuple(map(normal, self.options.background))
        self._findings = Findings()
        self._orientation: Orientation = "TxD"
        self._actions: dict[str, int] = {}
        self._paths: dict[str, Path] = {}
        self._annotations = Annotations({}, {}, {}, frozenset(), ())
        self._clips: dict[str, _SurveyedClip] = {}
        self._splits = Splits()

    def survey(self, progress: Progress = no_progress) -> Survey:
        """Reads and validates every file, including the features.

        Raises:
            StoreError: the dataset is invalid (all problems).
        """
        self._check_options()
        findings = self._findings = Findings()
        folder = self.source / "features"
        self._paths = find_files(folder, ".npy", findings.problems)
        if not self._paths:
            found = other_files(folder, ".npy") or None
            findings.report(
                [Problem(rule="missing", place=str(folder), value=found, expected="at least one .npy file")]
            )
        headers = findings.read_all(self._paths, read_header)
        vocabulary = self._read_annotations()
        dtype, dim = self._shapes(headers)
        self._fit(headers)
        for option, regex in self._regexes:
            findings.problems += _unmatched_problems(option, regex, self._paths)
        problems: list[Problem] = []
        for done, video in enumerate(headers, 1):
            frames = self._clips[video].frames if video in self._clips else None
            problems += id_problems(video, ()) + value_problems(self._features(video, frames), dtype, video)
            progress("checking", done, len(headers))
        findings.report(problems)
        self._splits = read_splits(self.source / "splits", Names((*self._paths, *self._annotations.unpaired)))
        findings.problems += self._splits.problems
        self._check_annotated()
        findings.raise_problems()
        self._note_splits()
        return Survey(
            dim=dim,
            dtype=dtype,
            vocabulary=vocabulary,
            background=self._background,
            n_videos=len(self._paths),
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
                features=self._features(video, clip.frames),
                transcript=None if clip.names is None else tuple(self._actions[name] for name in clip.names),
                lengths=clip.lengths,
                splits=self._splits.of(video),
                group=clip.group,
                activity=clip.activity,
            )

    @property
    def _regexes(self) -> tuple[tuple[str, str | None], ...]:
        return ("--group-regex", self.options.group_regex), ("--activity-regex", self.options.activity_regex)

    def _check_options(self) -> None:
        hint = (
            "pass the folder that contains features/NAME.npy and groundTruth/NAME.txt (a label per frame), "
            "transcripts/NAME.txt (an action per line) or transcripts.csv"
        )
        if not self.source.is_dir():
            raise StoreError(Problem(rule="missing", place=str(self.source), message="no such folder", hint=hint))
        annotated = any((self.source / name).exists() for name in (LABELS, FOLDER, TABLE))
        problems = [
            Problem(rule="missing", place=str(self.source / name), message="no such folder", hint=hint)
            for name, found in (("features", (self.source / "features").is_dir()), (LABELS, annotated))
            if not found
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

    def _read_annotations(self) -> tuple[str, ...]:
        """Reads mapping, labels and transcripts; returns the names of the actions in the order of their ids."""
        findings, path = self._findings, self.source / "mapping.txt"
        mapping: dict[int, str] | None = None
        try:
            mapping = read_mapping(path) if path.exists() else None
        except StoreError as error:
            findings.problems += error.problems
        known = frozenset((mapping or {}).values())
        self._annotations = read_annotations(self.source, self._paths, known, findings)
        if path.exists() and mapping is None:
            return ()
        names = self._annotations.occurrences()
        vocabulary = vocabulary_of(path, mapping, names, self._background, findings)
        self._actions = {name: index for index, name in enumerate(vocabulary)}
        return vocabulary

    def _shapes(self, headers: dict[str, Header]) -> tuple[str, int]:
        """Returns dtype and D of the store; removes invalid files from `headers`."""
        findings = self._findings
        dtype, dim = self.options.dtype or DTYPES[0], 0
        flat = {video: header.shape for video, header in headers.items() if len(header.shape) == 2}
        try:
            dtype = self.options.dtype or widest_dtype(headers)
            if flat:
                labels = self._annotations.labels.items()
                n_labels = {video: runs.n_frames for video, runs in labels if runs.n_frames > len(runs.names)}
                self._orientation = self.options.orientation or orientation_of(flat, n_labels)
        except StoreError as error:
            unread = len(headers) < len(self._paths)  # once they can be read, they may show the orientation
            findings.problems += [found for found in error.problems if not (unread and found.place == "--orientation")]
            findings.report(
                problem
                for video in headers.keys() - flat.keys()
                for problem in shape_problems(video, headers[video].shape, headers[video].dtype, dim, dtype)
            )
            headers.clear()
            return dtype, dim
        if self._orientation == "DxT":
            findings.notes.append("features are transposed ([D T]) in the files; read them as [T D]")
        differing = dim_problems(flat, self._paths, self._orientation)
        findings.report(differing.values())
        if flat:
            dim = Counter(headers[video].oriented(self._orientation)[1] for video in flat).most_common(1)[0][0]
        others: list[Problem] = []
        for video, header in list(headers.items()):
            problems = shape_problems(video, header.oriented(self._orientation), header.dtype, dim, dtype)
            others += problems if video not in differing else []
            if problems:
                del headers[video]
        findings.report(others)
        return dtype, dim

    def _features(self, video: str, n_frames: int | None) -> NDArray[Any]:
        array = open_npy(self._paths[video])
        return (array.T if self._orientation == "DxT" else array)[:n_frames]

    def _fit(self, headers: dict[str, Header]) -> None:
        """Brings features and labels to the same length, and extracts group and activity from the names."""
        options, findings = self.options, self._findings
        problems: list[Problem] = []
        notes: list[tuple[int, str]] = []
        sampled = self._sampled(headers)
        for video, header in headers.items():
            n_features = header.oriented(self._orientation)[0]
            labels, transcript = self._annotations.labels.get(video), self._annotations.transcripts.get(video)
            frames, note = n_features, None
            if labels is not None:
                difference = abs(n_features - labels.n_frames)
                try:
                    frames, labels, note = fitted(
                        video,
                        n_features,
                        labels,
                        options.length_policy,
                        options.length_tolerance,
                        sampled=sampled,
                    )
                except StoreError as error:
                    problems += error.problems
                    continue
                notes += [(-difference, note)] if note else []
            elif transcript is not None:
                problems += length_problems(transcript, n_features)
            known = labels or transcript
            self._clips[video] = _SurveyedClip(
                frames=frames,
                names=known.names if known else None,
                lengths=labels.lengths if labels else None,
                group=_extracted(options.group_regex, video) or (transcript.group if transcript else None),
                activity=_extracted(options.activity_regex, video) or (transcript.activity if transcript else None),
            )
        findings.report(problems)
        findings.note_all([note for _, note in sorted(notes)])

    def _sampled(self, headers: dict[str, Header]) -> bool:
        """Returns whether clips of several lengths have labels at one rate, which transcripts do not have."""
        counts = {
            (headers[video].oriented(self._orientation)[0], labels.n_frames)
            for video, labels in self._annotations.labels.items()
            if video in headers
        }
        return len({frames for frames, _ in counts}) > 2 and bool(common_rates(sorted(counts)))

    def _check_annotated(self) -> None:
        """Reports training clips without labels and transcript, and notes other clips without them."""
        if not self._annotations.named and self._findings.problems:  # the annotation as a whole is not readable
            return
        missing = [video for video in self._paths if video not in self._annotations.named]
        training = [video for video in missing if any(part.endswith(":train") for part in self._splits.of(video))]
        place = str(self.source / LABELS)
        if training or (missing and len(missing) == len(self._paths)):
            message = f"videos without labels and without a transcript ({len(training or missing)}): "
            message += some(training or missing, _MOST_NAMES)
            if others := other_files(self.source / LABELS, ".txt"):
                message += f" (not read in {LABELS}: {others})"
            hint = f"training needs {LABELS}/NAME.txt (a label per frame) or {FOLDER}/NAME.txt (an action per line)"
            problem = Problem(rule="missing", place=place, value=training or missing, message=message, hint=hint)
            self._findings.report([problem])
        elif missing:
            self._findings.notes.append(
                f"{counted(len(missing), 'video')} without labels and without a transcript can be predicted, but not "
                f"scored: {some(missing, _MOST_NAMES)}"
            )

    def _note_splits(self) -> None:
        """Adds the notes about splits."""
        notes = self._findings.notes
        notes += self._splits.notes
        notes += absent_actions(
            self._splits, {video: frozenset(self._annotations.names(video)) for video in self._paths}
        )
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

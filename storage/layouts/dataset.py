"""What all layouts share: the checks of a whole dataset, and its clips.

A layout is a subclass of `Dataset` that says where its files are and reads its annotation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from storage.constants import DTYPES
from storage.errors import Problem, StoreError, counted, some
from storage.feature_files import NAMELESS, PICKLES, SUFFIXES
from storage.feature_files.content import Header
from storage.feature_files.files import open_features, read_header
from storage.format.arrays import value_problems
from storage.format.rules import id_problems, shape_problems
from storage.layouts import Clip, ImportOptions, Orientation, Progress, Survey, no_progress
from storage.layouts.annotations import Annotations
from storage.layouts.checks import extracted, option_problems, sampling_problems, unmatched_problems, without_effect
from storage.layouts.findings import Findings
from storage.layouts.labels import Labels, Occurrence, fitted
from storage.layouts.mapping import read_mapping, vocabulary_of
from storage.layouts.shapes import common_rates, dim_problems, orientation_of, widest_dtype
from storage.layouts.splits import Splits, read_splits
from storage.layouts.text import Names, find_files, other_files
from storage.layouts.transcripts import FOLDER, length_problems
from storage.names import normal

_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class _SurveyedClip:
    """Result of the survey for one clip: the frames of the file that are read, and its annotation."""

    frames: int
    names: tuple[str, ...] | None
    lengths: tuple[int, ...] | None
    group: str | None
    activity: str | None


class Dataset(ABC):
    """A dataset on disk.

    Args:
        source: folder of the dataset.
        options: options of the import.

    Attributes:
        name: name of the layout.
        contents: files that the folder contains, in words.
        required: files or folders that must exist, as groups of alternatives; the first one of a group is its place.
        annotation: file or folder of the annotation, the place of problems with all of it.
        suffix: last characters of the files in that folder.
        needs: annotation that a training clip needs, in words.
        uses: names of the options in `checks.OF_SOME` that the layout uses.
        paths: feature files by clip, in the order of their names.
        findings: problems and notes, which the layout adds to.
    """

    name: ClassVar[str]
    contents: ClassVar[str]
    required: ClassVar[tuple[tuple[str, ...], ...]]
    annotation: ClassVar[str]
    suffix: ClassVar[str] = ".txt"
    needs: ClassVar[str]
    uses: ClassVar[frozenset[str]] = frozenset({"length_policy", "length_tolerance"})
    features: ClassVar[str] = "features"

    def __init__(self, source: Path, options: ImportOptions | None = None) -> None:
        self.source = source
        self.options = options or ImportOptions()
        self.paths: dict[str, Path] = {}
        self.findings = Findings()
        self._background = tuple(map(normal, self.options.background))
        self._orientation: Orientation = "TxD"
        self._actions: dict[str, int] = {}
        self._annotations = Annotations()
        self._shapes_found: dict[str, tuple[int, ...]] = {}
        self._clips: dict[str, _SurveyedClip] = {}
        self._splits = Splits()

    @abstractmethod
    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads the annotation of the clips in `paths`; adds its problems and notes to `findings`.

        Args:
            mapping: names of the actions by id; empty if there is no mapping, or if it is not readable.
        """

    def read_splits(self, names: Names) -> Splits:
        """Reads the splits.

        Args:
            names: names of the clips.
        """
        return read_splits(self.source / "splits", names)

    def survey(self, progress: Progress = no_progress, *, values: bool = True) -> Survey:
        """Reads and validates every file, see `Layout.survey`."""
        self._check_options()
        findings = self.findings = Findings()
        self._find_features()
        headers = findings.read_all(self.paths, lambda path: read_header(path, self.options.key))
        self._shapes_found = {video: header.shape for video, header in headers.items()}
        vocabulary = self._read_annotations()
        self._check_length_options()
        dtype, dim = self._shapes(headers)
        self._fit(headers)
        findings.problems += unmatched_problems(self.options, self.paths)
        problems: list[Problem] = []
        for done, video in enumerate(headers, 1):
            problems += [replace(problem, place=str(self.paths[video])) for problem in id_problems(video, ())]
            if values:
                problems += self._value_problems(video, dtype)
                progress("checking", done, len(headers))
        findings.report(problems)
        self._splits = self.read_splits(Names((*self.paths, *self._annotations.unpaired)))
        findings.problems += self._splits.problems
        self._check_annotated()
        findings.raise_problems()
        self._note_splits()
        rate = self.options.sample_rate
        return Survey(
            dim=dim,
            dtype=dtype,
            vocabulary=vocabulary,
            background=self._background,
            n_videos=len(self.paths),
            notes=tuple(findings.notes),
            metadata={
                "layout": self.name,
                "orientation": self._orientation,
                "length_policy": self.options.length_policy,
                "length_tolerance": self.options.length_tolerance,
                **({"sample_rate": rate} if rate > 1 else {}),
                **({"fill": self.options.fill} if self.options.fill else {}),
                **({"key": self.options.key} if self.options.key else {}),
            },
            sample_rate=rate,
        )

    def clips(self) -> Iterator[Clip]:
        """Yields the clips in the order of their ids; call `survey` first."""
        for video, clip in sorted(self._clips.items()):
            yield Clip(
                id=video,
                features=self._features(video, clip.frames)[:: self.options.sample_rate],
                transcript=None if clip.names is None else tuple(self._actions[name] for name in clip.names),
                lengths=clip.lengths,
                splits=self._splits.of(video),
                group=clip.group,
                activity=clip.activity,
            )

    def _check_options(self) -> None:
        hint = f"pass the folder that contains {self.contents}"
        if not self.source.is_dir():
            raise StoreError(Problem(rule="missing", place=str(self.source), message="no such folder", hint=hint))
        problems = [
            Problem(rule="missing", place=str(self.source / group[0]), message="no such file or folder", hint=hint)
            for group in self.required
            if not any((self.source / name).exists() for name in group)
        ]
        problems += option_problems(self.options, self.name, self.uses)
        if problems:
            raise StoreError(problems)

    def _find_features(self) -> None:
        """Finds the feature files of all kinds."""
        folder, key, findings = self.source / self.features, self.options.key, self.findings
        self.paths = find_files(folder, (*SUFFIXES, *PICKLES), findings.problems)
        kinds = Counter(path.suffix.lower() for path in self.paths.values())
        if not self.paths:
            found, expected = other_files(folder, SUFFIXES) or None, f"feature files ({', '.join(SUFFIXES)})"
            findings.report([Problem(rule="missing", place=str(folder), value=found, expected=expected)])
        elif key is not None and kinds.keys() <= set(NAMELESS):
            message, hint = f"{some(sorted(kinds))} files contain one array without a name", "leave it out"
            findings.report([Problem(rule="conflict", place="--key", value=key, message=message, hint=hint)])
        if len(kinds) > 1:
            listed = ", ".join(f"{number} {suffix}" for suffix, number in kinds.most_common())
            findings.notes.append(f"{folder}: files of several kinds: {listed}")

    def _check_length_options(self) -> None:
        """Reports options for frame labels if the dataset was read and has none."""
        if not self._annotations.labels and not self.findings.problems:
            names = {"length_policy", "length_tolerance"} & self.uses
            self.findings.problems += without_effect(self.options, names, "a dataset without frame labels")

    def _read_annotations(self) -> tuple[str, ...]:
        """Reads mapping and annotation; returns the names of the actions in the order of their ids."""
        findings, path = self.findings, self.source / "mapping.txt"
        mapping: dict[int, str] | None = None
        try:
            mapping = read_mapping(path) if path.exists() else None
        except StoreError as error:
            findings.problems += error.problems
        self._annotations = self.read_annotations(mapping or {})
        if path.exists() and mapping is None:
            return ()
        occurrences = list(self._annotations.occurrences)
        if fill := normal(self.options.fill or ""):
            occurrences.append(Occurrence(fill, path, "--fill", 1))
        vocabulary = vocabulary_of(path, mapping, occurrences, self._background, findings)
        self._actions = {name: index for index, name in enumerate(vocabulary)}
        return vocabulary

    def _shapes(self, headers: dict[str, Header]) -> tuple[str, int]:
        """Returns dtype and D of the store; removes invalid files from `headers`."""
        findings = self.findings
        dtype, dim = self.options.dtype or DTYPES[0], 0
        flat = {video: header.shape for video, header in headers.items() if len(header.shape) == 2}
        try:
            dtype = self.options.dtype or widest_dtype(headers)
            if flat:
                labels = self._annotations.labels.items()
                n_labels = {video: runs.n_frames for video, runs in labels if runs.n_frames > len(runs.names)}
                self._orientation = self.options.orientation or orientation_of(flat, n_labels)
        except StoreError as error:
            unread = len(headers) < len(self.paths)  # once they can be read, they may show the orientation
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
        differing = dim_problems(flat, self.paths, self._orientation)
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
        """Opens the features of a clip.

        Raises:
            StoreError: see `open_features`; the array has another shape than at the beginning of the survey.
        """
        array = open_features(self.paths[video], self.options.key)
        if array.shape != self._shapes_found[video]:
            message, hint = f"changed during the import from shape {list(self._shapes_found[video])}", "import it again"
            place = str(self.paths[video])
            raise StoreError(Problem(rule="state", place=place, value=list(array.shape), message=message, hint=hint))
        return (array.T if self._orientation == "DxT" else array)[:n_frames]

    def _value_problems(self, video: str, dtype: str) -> list[Problem]:
        """Reports values that a store cannot contain; if there are any in the kept frames, all rows of the file."""
        try:
            features = self._features(video, self._clips[video].frames if video in self._clips else None)
        except StoreError as error:  # values may be damaged behind a header that is not
            return list(error.problems)
        problems = value_problems(features[:: self.options.sample_rate], dtype, video)
        return value_problems(features, dtype, video) if problems and self.options.sample_rate > 1 else problems

    def _fit(self, headers: dict[str, Header]) -> None:
        """Brings features and labels to the same length, and extracts group and activity from the names."""
        options, findings = self.options, self.findings
        problems: list[Problem] = []
        notes: list[tuple[int, str]] = []
        n_filled = Counter(self._annotations.filled)
        kept: dict[str, tuple[int, Labels | None]] = {}
        sampled = self._sampled(headers)
        hint = f"move such files from {self.annotation}/ to {FOLDER}/"
        hint = "check the unit of the times" if "fill" in self.uses else hint
        for video, header in headers.items():
            n_features = header.oriented(self._orientation)[0]
            labels, transcript = self._annotations.labels.get(video), self._annotations.transcripts.get(video)
            frames, note = n_features, None
            if labels is not None:
                n_filled[video] += max(0, n_features - labels.n_frames) if options.fill else 0
                labels = labels.filled(n_features, normal(options.fill)) if options.fill else labels
                difference = abs(n_features - labels.n_frames)
                try:
                    frames, labels, note = fitted(
                        video,
                        n_features,
                        labels,
                        options.length_policy,
                        options.length_tolerance,
                        sampled=sampled,
                        hint=hint,
                    )
                except StoreError as error:
                    problems += error.problems if n_features < labels.n_frames else self._with_fill(error)
                    continue
                notes += [(-difference, note)] if note else []
            elif transcript is not None:
                problems += length_problems(transcript, n_features)
            kept[video] = frames, labels
        findings.report(problems)
        findings.note_all([note for _, note in sorted(notes)])
        if n_filled.total():
            filled = f"{counted(n_filled.total(), 'frame')} without a segment are {options.fill}"
            findings.notes.append(f"--fill: {filled}, in {counted(len(+n_filled), 'video')}")
        findings.report(sampling_problems(options.sample_rate, kept, self._annotations))
        self._clips = {video: self._surveyed(video, frames, labels) for video, (frames, labels) in kept.items()}

    def _with_fill(self, error: StoreError) -> list[Problem]:
        """Returns the problems of labels that end before the features, with the option that the layout has for it."""
        hint = ", or name the action of the last frames with --fill" if "fill" in self.uses else ""
        return [replace(problem, hint=problem.hint + hint) for problem in error.problems]

    def _surveyed(self, video: str, frames: int, labels: Labels | None) -> _SurveyedClip:
        options, annotations = self.options, self._annotations
        known = labels or annotations.transcripts.get(video)
        return _SurveyedClip(
            frames=frames,
            names=known.names if known else None,
            lengths=labels.sampled(options.sample_rate) if labels else None,
            group=extracted(options.group_regex, video) or annotations.groups.get(video),
            activity=extracted(options.activity_regex, video) or annotations.activities.get(video),
        )

    def _sampled(self, headers: dict[str, Header]) -> bool:
        """Returns whether clips of several lengths have labels at one rate, which transcripts do not have."""
        counts = {
            (headers[video].oriented(self._orientation)[0], labels.n_frames)
            for video, labels in self._annotations.labels.items()
            if video in headers
        }
        return len({frames for frames, _ in counts}) > 2 and bool(common_rates(sorted(counts)))

    def _check_annotated(self) -> None:
        """Reports training clips without annotation, and notes other clips without it."""
        if not self._annotations.named and self.findings.problems:  # the annotation as a whole is not readable
            return
        missing = [video for video in self.paths if video not in self._annotations.named]
        training = [video for video in missing if any(part.endswith(":train") for part in self._splits.of(video))]
        place = self.source / self.annotation
        if training or (missing and len(missing) == len(self.paths)):
            message = f"videos without labels and without a transcript ({len(training or missing)}): "
            message += some(training or missing, _MOST_NAMES)
            if others := other_files(place, self.suffix):
                message += f" (not read in {self.annotation}: {others})"
            hint = f"training needs {self.needs}"
            problem = Problem(rule="missing", place=str(place), value=training or missing, message=message, hint=hint)
            self.findings.report([problem])
        elif missing:
            self.findings.notes.append(
                f"{counted(len(missing), 'video')} without labels and without a transcript can be predicted, but not "
                f"scored: {some(missing, _MOST_NAMES)}"
            )

    def _note_splits(self) -> None:
        """Adds the notes about splits."""
        notes = self.findings.notes
        notes += self._splits.notes
        outside = [video for video in self._clips if not self._splits.of(video)]
        if outside and self._splits.parts:
            notes.append(f"videos in no split ({len(outside)}): {some(outside, _MOST_NAMES)}")

"""Layout of exported stores: that of MS-TCN, and `store.json` with what else the store knew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from storage.errors import Problem, StoreError, condensed, some
from storage.exporting.description import FILE, Description
from storage.layouts import ImportOptions, Progress, Survey, no_progress
from storage.layouts.annotations import LABELS, Annotations, read_annotations
from storage.layouts.dataset import Dataset
from storage.layouts.labels import Labels
from storage.layouts.splits import Splits
from storage.layouts.text import Names


class Exported(Dataset):
    """An exported store, see `storage.exporting`.

    Options take precedence over `store.json`.

    Raises:
        StoreError: `store.json` is missing or invalid.
    """

    name = "export"
    contents = f"features/NAME.npy and {FILE}"
    required = (("features",), (FILE,))
    annotation = LABELS
    needs = f"{LABELS}/NAME.txt (a label per frame) or transcripts/NAME.txt (an action per line)"

    def __init__(self, source: Path, options: ImportOptions | None = None) -> None:
        self._description = known = Description.read(source / FILE)
        given = options or ImportOptions()
        given = replace(
            given,
            background=given.background or known.background,
            dtype=given.dtype or known.dtype,
            orientation=given.orientation or "TxD",
        )
        super().__init__(source, given)

    def survey(self, progress: Progress = no_progress, *, values: bool = True) -> Survey:
        """Reads and validates every file, see `Layout.survey`."""
        survey, default = super().survey(progress, values=values), ImportOptions()
        changes = {
            name: getattr(self.options, name)
            for name in ("length_policy", "length_tolerance", "sample_rate")
            if getattr(self.options, name) != getattr(default, name)
        }
        times = {name: value for name, value in self._description.times.items() if value is not None}
        return replace(survey, metadata={**self._description.metadata, **changes}, times=times)

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads labels and transcripts, and adds what `store.json` knows of their clips."""
        known, findings = self._description, self.findings
        self._check_known({**known.groups, **known.activities, **known.lengths}.keys() | set(known.unannotated))
        found = read_annotations(self.source, self.paths, frozenset(mapping.values()), findings)
        labels = dict(found.labels)
        problems: list[Problem] = []
        for video in labels.keys() & known.lengths.keys():
            try:
                labels[video] = _divided(labels[video], known.lengths[video], f"{self.source / FILE}: lengths, {video}")
            except StoreError as error:
                problems += error.problems
        findings.report(problems)
        # A row of a table is not taken for labels of frames, whatever its length.
        transcripts = {
            video: replace(transcript, row=transcript.row or str(transcript.path))
            for video, transcript in found.transcripts.items()
        }
        if unannotated := [video for video in known.unannotated if video not in found.named]:
            findings.notes.append(f"videos without labels and without a transcript: {some(unannotated)}")
        return replace(
            found,
            labels=labels,
            transcripts=transcripts,
            named=found.named | set(known.unannotated),
            groups={**found.groups, **known.groups},
            activities={**found.activities, **known.activities},
        )

    def read_splits(self, names: Names) -> Splits:
        """Reads the splits, also the parts that no file can be named after."""
        splits = super().read_splits(names)
        for part, videos in self._description.parts.items():
            self._check_known(videos)
            splits.parts[part] = frozenset(videos)
        return splits

    def _check_known(self, videos: Iterable[str]) -> None:
        unknown = sorted(video for video in videos if video not in self.paths)
        self.findings.problems += condensed(
            Problem(
                rule="unknown",
                place=str(self.source / FILE),
                value=video,
                message=f"{video!r} has no features",
                hint=f"restore its file, or remove it from {FILE}",
            )
            for video in unknown
        )


def _divided(labels: Labels, lengths: tuple[int, ...], place: str) -> Labels:
    """Returns labels of frames as segments of given lengths, of which neighbours may have the same action.

    Raises:
        StoreError: the labels change inside a segment, or have another number of frames.
    """
    borders = [0, *accumulate(lengths)]
    missing = set(accumulate(labels.lengths)) - set(borders)
    if missing or borders[-1] != labels.n_frames:
        expected = f"segments whose borders include those of the labels, {list(labels.lengths)}"
        hint = "remove the clip here if its labels were changed"
        raise StoreError(Problem(rule="mismatch", place=place, value=list(lengths), expected=expected, hint=hint))
    names = [name for name, length in zip(labels.names, labels.lengths, strict=True) for _ in range(length)]
    return Labels(tuple(names[start] for start in borders[:-1]), lengths)

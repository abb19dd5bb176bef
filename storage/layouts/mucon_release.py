"""Layout of the dataset that the authors of MuCon published, by its description.

`features/*.npy` (`[T D]`), `labels/*.npy` (`[T]`, ids of the frames), `transcripts/*.npy` (`[M]`, ids of the segments),
`lengths/*.npy` (`[M]`, frames of the segments), `mapping.txt` (`ID NAME`), and `splitK.train` and `splitK.test` (a clip
name per line). Each clip of a training part needs labels or a transcript; what a clip has must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, StoreError, counted, some
from storage.feature_files.files import open_features
from storage.layouts.annotations import Annotations, paired
from storage.layouts.dataset import Dataset
from storage.layouts.labels import Labels, Occurrence
from storage.layouts.splits import Splits, read_parts
from storage.layouts.text import Names, find_files
from storage.layouts.transcripts import Transcript

Numbers = NDArray[Any]
_KINDS = ("labels", "transcripts", "lengths")
_SPLIT = re.compile(r"split([^.:\s]+)\.(train|test|val)", re.IGNORECASE)


class MuConRelease(Dataset):
    """A dataset whose annotation is arrays of ids."""

    name = "mucon"
    contents = "mapping.txt, and features/, labels/, transcripts/ and lengths/ with NAME.npy"
    required = (("features",), ("labels", "transcripts"), ("mapping.txt",))
    annotation = "labels"
    suffix = ".npy"
    needs = "labels/NAME.npy (an id per frame) or transcripts/NAME.npy (an id per segment)"

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads labels, transcripts and lengths, which must agree."""
        findings = self.findings
        found: dict[str, dict[str, Path]] = {}
        for kind in _KINDS:
            folder = self.source / kind
            for name, path in (find_files(folder, ".npy", findings.problems) if folder.is_dir() else {}).items():
                found.setdefault(name, {})[kind] = path
        clips, unpaired = paired(found, self.source / self.features, self.paths, "annotations", findings)
        arrays: dict[str, dict[str, Numbers]] = {video: {} for video in clips}
        for kind in _KINDS:
            files = {video: paths[kind] for video, paths in clips.items() if kind in paths}
            for video, numbers in findings.read_all(files, _read_numbers).items():
                arrays[video][kind] = numbers
        labels: dict[str, Labels] = {}
        transcripts: dict[str, Transcript] = {}
        occurrences: list[Occurrence] = []
        problems: list[Problem] = []
        for video, paths in clips.items():
            given = arrays[video]
            if len(given) < len(paths):
                continue
            occurrences += _occurrences(paths, given, mapping)
            if problem := _contradiction(self.source, video, paths, given):
                problems.append(problem)
            elif "labels" in given or "lengths" in given:
                ids, frames = (given["transcripts"], given["lengths"]) if "lengths" in given else _runs(given["labels"])
                labels[video] = Labels(_names(ids, mapping), tuple(frames.tolist()))
            else:
                path = paths["transcripts"]
                transcripts[video] = Transcript(_names(given["transcripts"], mapping), path, row=str(path))
        findings.report(problems)
        return Annotations(
            labels=labels,
            transcripts=transcripts,
            occurrences=tuple(occurrences),
            named=frozenset(clips),
            unpaired=unpaired,
        )

    def read_splits(self, names: Names) -> Splits:
        """Reads `splitK.train` and `splitK.test`."""
        visible = [path for path in sorted(self.source.iterdir()) if path.is_file() and path.name[0] != "."]
        files = {path: f"{match[1]}:{match[2].lower()}" for path in visible if (match := _SPLIT.fullmatch(path.name))}
        splits = read_parts(files, names)
        others = [path.name for path in visible if path not in files and re.search("split|train|test", path.name)]
        if others:
            splits.notes.append(f"{self.source}: ignored files: {some(others)}; expected splitK.train or splitK.test")
        if not files:
            splits.notes.append(f"{self.source}: no split files (splitK.train), the store will have no splits")
        return splits


def _read_numbers(path: Path) -> Numbers:
    """Reads a vector of whole numbers.

    Raises:
        StoreError: see `open_features`; another number of dimensions, no values, or values that are not whole numbers.
    """
    array = open_features(path)
    if array.ndim != 1 or not len(array):
        expected = "a vector with at least one number"
        raise StoreError(Problem(rule="shape", place=str(path), value=list(array.shape), expected=expected))
    floats = array.dtype.kind == "f" and np.abs(array).max() < 2**53
    if not (array.dtype.kind in "iu" or (floats and (array == np.floor(array)).all())):
        expected = "whole numbers: ids of mapping.txt, or frames"
        raise StoreError(Problem(rule="type", place=str(path), value=array.dtype.name, expected=expected))
    return np.asarray(array, dtype=np.int64)


def _runs(frames: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the ids and the lengths of the runs of equal ids."""
    starts = np.flatnonzero(np.diff(frames, prepend=frames[:1] - 1))
    return frames[starts], np.diff(starts, append=len(frames))


def _names(ids: Numbers, mapping: Mapping[int, str]) -> tuple[str, ...]:
    """Returns the names of ids; that of an id without a name, such as `id 48`, is reported as an unknown action."""
    return tuple(mapping.get(number, f"id {number}") for number in ids.tolist())


def _occurrences(
    paths: Mapping[str, Path], given: Mapping[str, Numbers], mapping: Mapping[int, str]
) -> Iterator[Occurrence]:
    """Yields each id with the place of its first frame or segment."""
    for kind in ("labels", "transcripts"):
        if kind in given:
            numbers, first, counts = np.unique(given[kind], return_index=True, return_counts=True)
            names = _names(numbers, mapping)
            for name, index, count in zip(names, first.tolist(), counts.tolist(), strict=True):
                yield Occurrence(name, paths[kind], f"{paths[kind]}[{index}]", count)


def _contradiction(source: Path, video: str, paths: Mapping[str, Path], given: Mapping[str, Numbers]) -> Problem | None:
    """Returns the first contradiction between labels, transcript and lengths of a clip; indices begin at 0."""
    frames, ids, lengths = (given.get(kind) for kind in _KINDS)
    if lengths is not None:
        place = str(paths["lengths"])
        if ids is None:
            transcript = source / "transcripts" / f"{video}.npy"
            return Problem(rule="missing", place=str(transcript), message=f"no such file, but {place} exists")
        if len(ids) != len(lengths):
            expected = f"{counted(len(ids), 'length')}, one per segment of {paths['transcripts']}"
            return Problem(rule="mismatch", place=place, value=len(lengths), expected=expected)
        if (lengths < 1).any():
            index = int(np.argmax(lengths < 1))
            return Problem(rule="range", place=f"{place}[{index}]", value=int(lengths[index]), expected="at least 1")
        if frames is not None and lengths.sum() != len(frames):
            expected = f"{counted(len(frames), 'frame')} in total, as in {paths['labels']}"
            return Problem(rule="mismatch", place=place, value=int(lengths.sum()), expected=expected)
    if frames is None or ids is None:
        return None
    if lengths is not None:
        kind, there, other = "labels", np.repeat(ids, lengths), f"{paths['transcripts']} and {paths['lengths']}"
    else:
        kind, there, other = "transcripts", _runs(frames)[0], str(paths["labels"])
    here, place = given[kind], str(paths[kind])
    if len(here) != len(there):
        expected = f"{counted(len(there), 'segment')}, as in {other}"
        return Problem(rule="mismatch", place=place, value=len(here), expected=expected)
    if (here != there).any():
        index = int(np.argmax(here != there))
        expected = f"{there[index]}, as in {other}"
        return Problem(rule="mismatch", place=f"{place}[{index}]", value=int(here[index]), expected=expected)
    return None

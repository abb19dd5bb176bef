"""Layout of the "coarse" annotation of Breakfast: a segment per line, such as `1-30 SIL`.

`features/*` (`[T D]` or `[D T]`), `segmentation_coarse/**/*.txt` (first and last frame of each segment, counted from 1,
and its action), `mapping.txt` (`ID NAME`) and `splits/PART.splitK.bundle`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from storage.errors import Problem, StoreError
from storage.layouts.annotations import Annotations, of_segments, paired
from storage.layouts.dataset import Dataset
from storage.layouts.labels import Segment, read_names
from storage.layouts.text import find_files

FOLDER = "segmentation_coarse"
_LINE = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})\s+(\S.*)", re.ASCII)


class BreakfastCoarse(Dataset):
    """A dataset with a file of segments per video."""

    name = "breakfast-coarse"
    contents = f"features/NAME.npy and {FOLDER}/NAME.txt (lines such as `1-30 SIL`)"
    required = (("features",), (FOLDER,))
    annotation = FOLDER
    needs = f"{FOLDER}/NAME.txt (lines such as `1-30 SIL`)"
    uses = frozenset({"length_policy", "length_tolerance", "fill"})

    def read_annotations(self, mapping: Mapping[int, str]) -> Annotations:
        """Reads the segments."""
        texts = find_files(self.source / FOLDER, ".txt", self.findings.problems)
        files, unpaired = paired(texts, self.source / self.features, self.paths, "segments", self.findings)
        segments = self.findings.read_all(files, _read_segments)
        return of_segments(segments, files, unpaired, self.options.fill, self.findings, first=1)


def _read_segments(path: Path) -> list[Segment]:
    """Reads the segments of a file.

    Raises:
        StoreError: see `read_names`; lines that are not a segment.
    """
    segments = []
    problems = []
    for number, line in enumerate(read_names(path), 1):
        place = f"{path}:{number}"
        if match := _LINE.fullmatch(line):
            start, stop = int(match[1]), int(match[2])
            if start < 1:
                expected = "a first frame of at least 1, because frames are counted from 1"
                problems.append(Problem(rule="range", place=place, value=start, expected=expected))
            segments.append(Segment(match[3], start - 1, stop, place))
        else:
            expected = "first and last frame, counted from 1, and an action, such as `1-30 SIL`"
            problems.append(Problem(rule="type", place=place, value=line, expected=expected))
    if problems:
        raise StoreError(problems)
    return segments

"""Lengths that an annotation lacks, drawn from what is known of each action's lengths.

    class_length_stats.csv    class, log_mean, log_std; min and max if known

Where a recording's last segment may be missing, it is added as often as the complete recordings end with that action.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mucon.errors import InputError, nearest
from mucon.synthetic.annotations import Annotation, rows_of
from mucon.synthetic.features import LENGTHS, keyed

STATISTICS = "class_length_stats.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthStatistics:
    """Lengths of an action's segments: the logarithm is normal, cut at the shortest and the longest.

    Attributes:
        log_mean: mean of the natural logarithm of the frames.
        log_std: its standard deviation.
        shortest: frames.
        longest: frames, infinite where not known.
    """

    log_mean: float
    log_std: float
    shortest: float = 1.0
    longest: float = math.inf

    def draw(self, generator: np.random.Generator) -> int:
        """Frames of one segment, at least 1."""
        drawn = math.exp(min(self.log_mean + self.log_std * generator.standard_normal(), 20.0))
        return max(1, round(min(max(drawn, self.shortest), self.longest)))


def read_statistics(path: Path) -> dict[str, LengthStatistics]:
    """Length statistics by action; none where there is no such file.

    Raises:
        InputError: columns that are missing, or values that are no numbers in their range.
    """
    if not path.is_file():
        return {}
    problems: list[str] = []
    found: dict[str, LengthStatistics] = {}
    for place, row in rows_of(path, ("class", "log_mean", "log_std"), problems):
        values = {}
        for name, default in (("log_mean", "0"), ("log_std", "0"), ("min", "1"), ("max", "inf")):
            text = row.get(name) or default
            try:
                values[name] = float(text)
            except ValueError:
                values[name] = math.nan
            if math.isnan(values[name]) or (name.startswith("log_") and not math.isfinite(values[name])):
                problems.append(f"{name} is a number, {place} has {text!r}: correct it")
        if values["log_std"] < 0 or values["min"] > values["max"]:
            problems.append(f"log_std is at least 0 and min at most max, {place} has others: correct them")
        if row["class"] in found:
            problems.append(f"a class has one row, {place} repeats {row['class']!r}: remove one")
        found[row["class"]] = LengthStatistics(
            log_mean=values["log_mean"], log_std=values["log_std"], shortest=values["min"], longest=values["max"]
        )
    if problems:
        raise InputError(problems)
    return found


def completed(
    annotations: Sequence[Annotation], statistics: Mapping[str, LengthStatistics], seed: int
) -> tuple[list[Annotation], list[str]]:
    """All recordings with lengths, and lines about what was drawn.

    Lengths that are not known are drawn from the statistics, and stretched to the recording's frames where those are
    known. A drawn length depends on the seed and the recording's id.

    Raises:
        InputError: an action whose statistics are needed and missing.
    """
    unknown = [annotation for annotation in annotations if annotation.lengths is None]
    needed = {action: annotation.place for annotation in reversed(unknown) for action in annotation.transcript}
    missing = sorted(set(needed) - set(statistics))
    if missing:
        raise InputError(
            f"unknown lengths are drawn from {STATISTICS}, which has no class {action!r}"
            f"{nearest(action, list(statistics))} ({needed[action]}): add it, or lengths to the transcripts"
            for action in missing
        )
    whole = [annotation for annotation in annotations if annotation.cut is None]
    done = []
    n_added = 0
    for annotation in annotations:
        generator = keyed(seed, LENGTHS, annotation.id)
        filled = annotation if annotation.lengths is not None else _drawn(annotation, statistics, generator)
        cut = annotation.cut
        if cut is not None and cut in statistics and whole and filled.lengths is not None:
            share = sum(other.transcript[-1] == cut for other in whole) / len(whole)
            if filled.transcript[-1] != cut and generator.random() < share:
                lengths = (*filled.lengths, statistics[cut].draw(generator))
                filled = replace(filled, transcript=(*filled.transcript, cut), lengths=lengths, frames=sum(lengths))
                n_added += 1
        done.append(filled)
    notes = []
    if unknown:
        notes.append(f"the lengths of {len(unknown)} of {len(annotations)} videos are drawn from {STATISTICS}")
    cuts = sum(annotation.cut is not None for annotation in annotations)
    if cuts:
        notes.append(
            f"{cuts} videos are annotated without their last background; {n_added} of them got one of a drawn length, "
            "as often as the others have it"
        )
    return done, notes


def _drawn(
    annotation: Annotation, statistics: Mapping[str, LengthStatistics], generator: np.random.Generator
) -> Annotation:
    lengths = [statistics[action].draw(generator) for action in annotation.transcript]
    if annotation.frames is not None:
        # One frame each, the others in the drawn proportions: the ends are rounded, so that the sum is right.
        spare = annotation.frames - len(lengths)
        ends = np.rint(np.cumsum(lengths) / sum(lengths) * spare).astype(int)
        lengths = (np.diff(ends, prepend=0) + 1).tolist()
    return replace(annotation, lengths=tuple(lengths), frames=sum(lengths))

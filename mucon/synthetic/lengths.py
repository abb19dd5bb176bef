"""Draws unknown lengths of an annotation from statistics of each action's lengths.

    class_length_stats.csv    class, log_mean, log_std; optionally min and max

If a recording's last segment may be missing, it is added as often as complete recordings end with that action.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mucon.errors import InputError, Problem, nearest
from mucon.synthetic.annotations import Annotation
from mucon.synthetic.features import LENGTHS, keyed
from storage.tables import rows_of

STATISTICS = "class_length_stats.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthStatistics:
    """Log-normal distribution of an action's lengths, limited to a range.

    Attributes:
        log_mean: mean of the natural logarithm of the frames.
        log_std: standard deviation of the logarithm.
        shortest: frames.
        longest: frames; infinite if unknown.
    """

    log_mean: float
    log_std: float
    shortest: float = 1.0
    longest: float = math.inf

    def draw(self, generator: np.random.Generator) -> int:
        """Draws the frames of one segment, at least 1."""
        frames = math.exp(min(self.log_mean + self.log_std * generator.standard_normal(), 20.0))
        return max(1, round(min(max(frames, self.shortest), self.longest)))


def read_statistics(path: Path) -> dict[str, LengthStatistics]:
    """Reads length statistics by action; empty without such a file.

    Raises:
        InputError: one problem per missing column, invalid value and duplicate class.
    """
    if not path.is_file():
        return {}
    problems: list[Problem] = []
    statistics: dict[str, LengthStatistics] = {}
    for place, row in rows_of(path, ("class", "log_mean", "log_std"), problems):
        values = {}
        for name, default in (("log_mean", "0"), ("log_std", "0"), ("min", "1"), ("max", "inf")):
            text = row.get(name) or default
            try:
                values[name] = float(text)
            except ValueError:
                values[name] = math.nan
            if math.isnan(values[name]) or (name.startswith("log_") and not math.isfinite(values[name])):
                problems.append(Problem(rule="type", place=f"{place}, {name}", value=text, expected="a number"))
        if values["log_std"] < 0:
            expected = "at least 0"
            problems.append(
                Problem(rule="range", place=f"{place}, log_std", value=values["log_std"], expected=expected)
            )
        if values["min"] > values["max"]:
            expected = f"at most max ({values['max']:g})"
            problems.append(Problem(rule="range", place=f"{place}, min", value=values["min"], expected=expected))
        if row["class"] in statistics:
            message = f"duplicate class {row['class']!r}"
            problems.append(Problem(rule="duplicate", place=place, value=row["class"], message=message))
        statistics[row["class"]] = LengthStatistics(
            log_mean=values["log_mean"], log_std=values["log_std"], shortest=values["min"], longest=values["max"]
        )
    if problems:
        raise InputError(problems)
    return statistics


def completed(
    annotations: Sequence[Annotation], statistics: Mapping[str, LengthStatistics], seed: int
) -> tuple[list[Annotation], list[str]]:
    """Completes all recordings with lengths; also returns lines that describe the random choices.

    Unknown lengths are drawn from the statistics, and scaled to the recording's frames if those are known. They depend
    on the seed and the recording's id.

    Raises:
        InputError: one problem per action without required statistics.
    """
    unknown = [annotation for annotation in annotations if annotation.lengths is None]
    needed = {action: annotation.place for annotation in reversed(unknown) for action in annotation.transcript}
    missing = sorted(set(needed) - set(statistics))
    if missing:
        raise InputError(
            Problem(
                rule="missing",
                place=f"{STATISTICS}: {action}",
                value=action,
                message=f"no statistics{nearest(action, list(statistics))} for the unknown lengths of {needed[action]}",
            )
            for action in missing
        )
    complete = [annotation for annotation in annotations if annotation.cut is None]
    filled_annotations = []
    n_added = 0
    for annotation in annotations:
        generator = keyed(seed, LENGTHS, annotation.id)
        filled = annotation if annotation.lengths is not None else _drawn(annotation, statistics, generator)
        cut = annotation.cut
        if cut is not None and cut in statistics and complete and filled.lengths is not None:
            share = sum(other.transcript[-1] == cut for other in complete) / len(complete)
            if filled.transcript[-1] != cut and generator.random() < share:
                lengths = (*filled.lengths, statistics[cut].draw(generator))
                filled = replace(filled, transcript=(*filled.transcript, cut), lengths=lengths, frames=sum(lengths))
                n_added += 1
        filled_annotations.append(filled)
    notes = []
    if unknown:
        notes.append(f"the lengths of {len(unknown)} of {len(annotations)} videos are drawn from {STATISTICS}")
    cuts = sum(annotation.cut is not None for annotation in annotations)
    if cuts:
        notes.append(
            f"{cuts} videos are annotated without their last background; {n_added} of them got one of random length, "
            "as often as the others have it"
        )
    return filled_annotations, notes


def _drawn(
    annotation: Annotation, statistics: Mapping[str, LengthStatistics], generator: np.random.Generator
) -> Annotation:
    lengths = [statistics[action].draw(generator) for action in annotation.transcript]
    if annotation.frames is not None:
        # One frame each, the others in the random proportions; rounding the ends keeps the sum.
        spare = annotation.frames - len(lengths)
        ends = np.rint(np.cumsum(lengths) / sum(lengths) * spare).astype(int)
        lengths = (np.diff(ends, prepend=0) + 1).tolist()
    return replace(annotation, lengths=tuple(lengths), frames=sum(lengths))

"""What stands under an experiment's rows: predictions that see no feature, and the ceiling of `frames`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.experiment import Experiment

BLIND = "transcript prior, equal lengths"
"""The row of the prediction that sees no feature; what is not above it has learnt nothing."""
BLIND_ALIGNMENT = "true transcript, equal lengths"
"""The same of alignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRow:
    """A row without seeds.

    Attributes:
        label: what stands in it.
        kind: `baseline` that sees no feature, or `ceiling` that no prediction is above.
        values: for each column the mean over the splits; None where one of them has none.
        task: of the rows that a baseline is to be compared with.
    """

    label: str
    kind: Literal["baseline", "ceiling"]
    values: tuple[float | None, ...]
    task: str | None = None


def extra_rows(experiment: Experiment, splits: Mapping[str, SplitData], pooling: int | None) -> Iterator[ExtraRow]:
    """A baseline for each task of the rows, then the ceiling where MoF is shown; those without any value are left out.

    Args:
        experiment: the table's shape.
        splits: of the store.
        pooling: frames of a latent frame in the base configuration; None: no ceiling.
    """
    tasks = dict.fromkeys(variant.task for variant in experiment.variants)
    rows = [_blind_of(task, experiment, list(splits.values())) for task in tasks]
    rows.append(_ceiling(experiment, list(splits.values()), pooling))
    yield from (extra for extra in rows if any(value is not None for value in extra.values))


def _blind_of(task: str, experiment: Experiment, splits: Sequence[SplitData]) -> ExtraRow:
    aligned = task == "alignment"
    scores = [split.blind_alignment if aligned else split.blind for split in splits]
    values = tuple(_mean([of_split.get(column.metric) for of_split in scores]) for column in experiment.columns)
    return ExtraRow(label=BLIND_ALIGNMENT if aligned else BLIND, kind="baseline", values=values, task=task)


def _ceiling(experiment: Experiment, splits: Sequence[SplitData], pooling: int | None) -> ExtraRow:
    """The best MoF of `frames`, in the columns that show it; where only other predictions' MoF is shown, in those."""
    of_mof = [column for column in experiment.columns if column.metric == "mof"]
    shown = [column for column in of_mof if column.prediction == "frames"] or of_mof
    best = _mean([split.ceilings.get(str(pooling)) for split in splits])
    values = tuple(best if column in shown else None for column in experiment.columns)
    return ExtraRow(label=f"ceiling of frames, pooling x{pooling}", kind="ceiling", values=values)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None

"""Extra rows of a table: feature-free baselines and the ceiling of `frames`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.experiment import Experiment

BLIND = "transcript prior, equal lengths"
"""Label of the feature-free baseline of segmentation; a model that does not beat it has learned nothing."""
BLIND_ALIGNMENT = "true transcript, equal lengths"
"""Label of the feature-free baseline of alignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRow:
    """A row without seeds.

    Attributes:
        label: text of the first label column.
        kind: feature-free `baseline`, or `ceiling` that no prediction can exceed.
        values: mean over the splits per column; None if any split has no value.
        task: task of the rows to which a baseline applies; None for the ceiling.
    """

    label: str
    kind: Literal["baseline", "ceiling"]
    values: tuple[float | None, ...]
    task: str | None = None


def extra_rows(experiment: Experiment, splits: Mapping[str, SplitData], pooling: int | None) -> Iterator[ExtraRow]:
    """A baseline for each task of the rows, then the ceiling if a column shows MoF; rows without values are left out.

    Args:
        experiment: the table's shape.
        splits: facts of each split by name.
        pooling: frames per latent frame in the base configuration; None: no ceiling.
    """
    tasks = dict.fromkeys(variant.task for variant in experiment.variants)
    rows = [_baseline(task, experiment, list(splits.values())) for task in tasks]
    rows.append(_ceiling(experiment, list(splits.values()), pooling))
    yield from (extra for extra in rows if any(value is not None for value in extra.values))


def _baseline(task: str, experiment: Experiment, splits: Sequence[SplitData]) -> ExtraRow:
    scores = [blind_scores(split, task) for split in splits]
    values = tuple(_mean([of_split.get(column.metric) for of_split in scores]) for column in experiment.columns)
    label = BLIND_ALIGNMENT if task == "alignment" else BLIND
    return ExtraRow(label=label, kind="baseline", values=values, task=task)


def blind_scores(split: SplitData, task: str) -> Mapping[str, float]:
    """Metric -> score of the feature-free baseline of a split and task."""
    return split.blind_alignment if task == "alignment" else split.blind


def _ceiling(experiment: Experiment, splits: Sequence[SplitData], pooling: int | None) -> ExtraRow:
    """Highest attainable MoF of `frames`, in the columns of its MoF; without such columns, in all columns of MoF."""
    mof_columns = [column for column in experiment.columns if column.metric == "mof"]
    columns = [column for column in mof_columns if column.prediction == "frames"] or mof_columns
    best = _mean([split.ceilings.get(str(pooling)) for split in splits])
    values = tuple(best if column in columns else None for column in experiment.columns)
    return ExtraRow(label=f"ceiling of frames, pooling x{pooling}", kind="ceiling", values=values)


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.fmean(present) if present and len(present) == len(values) else None

"""The trials of a sweep that are exported: the best one by a metric on a split, or all seeds of the best row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mucon.checkpoint_files import Saved, of_run
from mucon.configuration import parse_settings
from mucon.errors import InputError, Problem, counted, nearest
from mucon.export.folder import finished
from mucon.export.scores import Interval, Score, scores_of
from mucon.methods import method_named
from mucon.metrics.catalogue import metric_of
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part
from sweeps.service.spec.columns import check_prediction
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.best import decoding_settings
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.reading import TrialReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The best row of a sweep on a split.

    Attributes:
        standing: the sweep.
        part: the table with the row.
        cells: the row's finished cells on the split, the best one first.
        metric: the deciding metric, such as `full.mof`.
        n_compared: number of the trainings it was chosen from.
    """

    standing: Standing
    part: Part
    cells: tuple[Cell, ...]
    metric: str
    n_compared: int

    @property
    def selection(self) -> str:
        """How the model was chosen, for its card."""
        cell, plan = self.cells[0], self.standing.plan
        held_out = ""
        if plan.part == "validation":
            held_out = (
                f" It was not trained on that part ({plan.splits[cell.split].held_out}). The test part of the "
                "split took no part in the choice."
            )
        too_high = " A score by which a model is chosen is too high for new recordings."
        return (
            f"Chosen by {self.metric} on the {plan.part} part of split {cell.split}, among "
            f"{counted(self.n_compared, 'training')} of the sweep {plan.name}, row {cell.variant.name!r}.{held_out}"
            f"{too_high if self.n_compared > 1 else ''}"
        )

    def trainings(self, *, ensemble: bool) -> dict[str, Saved]:
        """The checkpoints of the best trial, or of all seeds of the row, by identity, with the row's decoding.

        Raises:
            InputError: a checkpoint is missing or damaged, or an ensemble of a row with one finished seed.
        """
        if ensemble and len(self.cells) < 2:
            expected = "a row with at least two finished seeds"
            raise InputError(Problem(rule="missing", place="--ensemble", value=len(self.cells), expected=expected))
        return {cell.identity: self._saved(cell) for cell in (self.cells if ensemble else self.cells[:1])}

    def scores(self) -> list[Score]:
        """The scores of the best trial, with the means over the seeds of its row."""
        results = [self._result(cell) for cell in self.cells]
        best, cell = results[0], self.cells[0]
        runs = [one.identity for one in self.cells]
        own = scores_of(
            best["scores"],
            best["per_video"],
            split=cell.split,
            part=self.standing.plan.part,
            task=cell.variant.task,
            runs=runs,
        )
        return [replace(one, over_seeds=_over_seeds(one, [result["scores"] for result in results])) for one in own]

    def with_seeds(self, scores: Sequence[Score]) -> list[Score]:
        """Scores of an ensemble with the means over its members."""
        known = {(one.prediction, one.metric): one.over_seeds for one in self.scores()}
        return [replace(one, over_seeds=known.get((one.prediction, one.metric))) for one in scores]

    def _result(self, cell: Cell) -> dict[str, Any]:
        result = TrialReading(self.standing.plan.results.trial(cell.identity)).result(cell.evaluation)
        assert result is not None  # its score has been read
        return result

    def _saved(self, cell: Cell) -> Saved:
        folder = self.standing.plan.results.trial(cell.identity)
        saved = finished(of_run(folder.path))
        chosen = decoding_settings(cell.variant, folder, self.part.settings_of(cell))
        config = method_named(saved.method).config.from_dict(saved.config)
        return replace(saved, config=config.with_values(parse_settings(chosen)).to_dict())


def chosen(standing: Standing, metric: str, split: str, *, row: str | None = None, table: str | None = None) -> Chosen:
    """The row with the best mean of a metric on a split.

    Args:
        standing: the sweep.
        metric: prediction and metric, such as `full.mof`.
        split: name of the split.
        row: name of a row; by default the best one. Rows in which the transcripts are given only count by name.
        table: name of a table; by default all.

    Raises:
        InputError: an unknown metric, split, row or table, or no finished trial.
    """
    prediction, _, name = metric.partition(".")
    check_prediction(prediction)
    higher_is_better = metric_of(name).higher_is_better
    plan = standing.plan
    known = {
        "--table": (table, [part.experiment.name for part in plan.parts]),
        "--split": (split, list(plan.splits)),
        "--row": (row, sorted({cell.variant.name for cell in plan.cells})),
    }
    problems = [
        Problem(rule="unknown", place=place, value=value, message=f"unknown name {value!r}{nearest(value, names)}")
        for place, (value, names) in known.items()
        if value is not None and value not in names
    ]
    if problems:
        raise InputError(problems)
    rows = list(_rows(standing, prediction, name, split, row, table))
    if not rows:
        message = f"no finished trial on split {split} has {metric}"
        raise InputError(Problem(rule="missing", place="--best", value=metric, message=message))
    sign = 1 if higher_is_better else -1
    part, values = max(rows, key=lambda one: sign * sum(one[1].values()) / len(one[1]))
    cells = sorted(values, key=lambda cell: -sign * values[cell])
    n_compared = sum(len(of_row) for _, of_row in rows)
    return Chosen(standing=standing, part=part, cells=tuple(cells), metric=metric, n_compared=n_compared)


def _rows(
    standing: Standing, prediction: str, metric: str, split: str, row: str | None, table: str | None
) -> Iterator[tuple[Part, dict[Cell, float]]]:
    """For each row with values, its table and the value of each finished cell."""
    for part in standing.plan.parts:
        if table not in (None, part.experiment.name):
            continue
        for variant in part.experiment.variants:
            if variant.name != row if row is not None else variant.task != "segmentation":
                continue
            cells = [cell for cell in part.cells if cell.variant.labels == variant.labels and cell.split == split]
            found = {cell: standing.results[cell.key].value(prediction, metric) for cell in cells}
            values = {cell: value for cell, value in found.items() if value is not None}
            if values:
                yield part, values


def _over_seeds(score: Score, of_seeds: Sequence[dict[str, dict[str, float]]]) -> Interval | None:
    found = [scores.get(score.prediction, {}).get(score.metric) for scores in of_seeds]
    summary = Summary.of([value for value in found if value is not None])
    if summary is None or summary.n < 2:
        return None
    low, high = summary.interval or (None, None)
    return Interval(mean=summary.mean, n=summary.n, low=low, high=high)

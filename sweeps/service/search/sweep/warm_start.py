"""Points whose scores are known from other sweeps of the results folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD, flatten
from mucon.errors import InputError, Problem
from sweeps.service.plan.plan import Part, read_plan
from sweeps.service.search.points import Measured, Point
from sweeps.service.search.queue import Known
from sweeps.service.search.sweep.rows import PART, PointPlan, point_row
from sweeps.service.search.sweep.source import measured_of
from sweeps.service.spec.columns import Variant
from sweeps.service.trials.cell_results import CellResult


def known_points(points: PointPlan, names: Sequence[str]) -> list[Known]:
    """The rows of some sweeps whose trials are those of a point: same recordings, part, and settings besides the space.

    Args:
        points: the plan of the search.
        names: names of the sweeps.

    Raises:
        InputError: no such sweep, or one that is scored on another part than the search.
    """
    problems = []
    for name in names:
        part = read_plan(points.ground.results, name).part
        if part != PART:
            message = f"{name} has scores of the {part} part, at which a search must not look"
            hint = f"run that sweep with --part {PART}"
            problems.append(Problem(rule="conflict", place="--warm-start", value=name, message=message, hint=hint))
    if problems:
        raise InputError(problems)
    return [known for name in names for known in _known(points, name)]


def _known(points: PointPlan, name: str) -> Iterator[Known]:
    plan = read_plan(points.ground.results, name)
    results = plan.read_results()
    for part in plan.parts:
        for row in part.experiment.variants:
            settings = part.settings.get(row.labels)
            if row.method != DEFAULT_METHOD or row.task != "segmentation" or row.prediction or settings is None:
                continue
            whole = flatten(TrainConfig().with_values(settings).to_dict())
            scores = dict(_scores(points, part, row, {path: whole[path] for path in points.search.space}, results))
            if scores:
                yield Known(f"{name}: {row.name}", whole, scores)


def _scores(
    points: PointPlan, part: Part, row: Variant, chosen: dict[str, object], results: dict[str, CellResult]
) -> Iterator[tuple[int, Measured]]:
    """Seed -> what a row reached, for the seeds whose trials on all splits are those of a point and are finished."""
    keys = {cell.key for cell in part.cells if cell.variant.labels == row.labels and results[cell.key].is_finished}
    for seed in sorted({cell.seed for cell in part.cells if cell.key in keys}):
        cells = tuple(points.trials_of(point_row(points.search, Point(0, chosen)), seed))
        if all(cell.key in keys for cell in cells):
            measured = measured_of(points.search, cells, results)
            if measured is not None:
                yield seed, measured

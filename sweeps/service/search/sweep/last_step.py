"""The last step of a search: its best points trained again, on the whole training part, with seeds that are new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sweeps.service.plan.plan import Plan, make_plan
from sweeps.service.search.points import PointRecord, SearchHistory, final_name
from sweeps.service.search.sweep.rows import Ground, point_row, search_table
from sweeps.service.spec.search import Search
from sweeps.service.stats.comparisons import seed_means
from sweeps.service.tables.values import cells_by_row, seed_values
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.trial import Trial


def final_records(search: Search, history: SearchHistory) -> list[PointRecord]:
    """The base configuration, for comparison, and the best points; of several objectives, those on the front first."""
    numbers = {*history.ranked[: search.best], *([] if history.default is None else [history.default.point.number])}
    return [history.record(number) for number in sorted(numbers)]


def fresh_seeds(search: Search, history: SearchHistory) -> range:
    """The smallest seeds that no point has used."""
    used = max((seed for record in history.records for seed in record.scores), default=0)
    first = max(used, search.seeds) + 1
    return range(first, first + search.fresh_seeds)


def final_plan(search: Search, ground: Ground, history: SearchHistory) -> tuple[Plan, dict[str, Trial]]:
    """The plan of the last step, and its trials by key; the first reader of the test part's annotations.

    Args:
        search: the search, which is over.
        ground: what its points share.
        history: its points.

    Raises:
        InputError: test recordings without the annotations that scoring needs.
    """
    rows = [point_row(search, record.point) for record in final_records(search, history)]
    default = None if history.default is None else point_row(search, history.default.point)
    title = f"{search.title}: the best points with fresh seeds"
    return make_plan(
        replace(search_table(search, rows, default=default), name=final_name(search.name), title=title),
        store=ground.store,
        base=lambda *_: ground.base,
        settings=ground.settings,
        seeds=fresh_seeds(search, history),
        splits=ground.splits,
        results=ground.results,
        device=ground.device,
    )


def fresh_scores(plan: Plan, results: Mapping[str, CellResult]) -> dict[int, dict[int, float]]:
    """Number of a point -> seed -> mean of the first objective over the splits, for the seeds that all splits have.

    Args:
        plan: that of the last step.
        results: state and scores of its cells, by key.
    """
    (part,) = plan.parts
    column, splits = part.experiment.columns[0], tuple(plan.splits)
    return {
        int(labels[0]): seed_means(seed_values(cells, results, column), splits)
        for labels, cells in cells_by_row(part.experiment, part.cells).items()
    }

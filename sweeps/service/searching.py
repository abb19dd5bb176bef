"""The order of a search: its points, then the best of them with fresh seeds, then what both say."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console

from mucon.configuration import flatten
from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL
from storage.fencing import SupersededError, Writer
from sweeps.service.driver import Options, run_plan
from sweeps.service.plan.sweep_folder import hold
from sweeps.service.report.report import outcome_with_search, present_search, write_report
from sweeps.service.report.search.findings import Findings
from sweeps.service.report.search.gathering import findings_of
from sweeps.service.run.budget.limits import Budget, Limit
from sweeps.service.run.budget.usage import Usage, read_all_usage
from sweeps.service.run.resources import Placement
from sweeps.service.search.points import SearchHistory, study_place, write_history
from sweeps.service.search.queue import SearchQueue
from sweeps.service.search.study import Study
from sweeps.service.search.sweep.last_step import final_plan, fresh_scores
from sweeps.service.search.sweep.rows import PointPlan
from sweeps.service.search.sweep.source import SearchGrowth
from sweeps.service.search.sweep.warm_start import known_points
from sweeps.service.tables.standing import Standing
from sweeps.service.text import say
from sweeps.service.track.tracked import Tracked
from sweeps.service.trials.results_folder import STOP_FILE
from sweeps.service.upkeep.trash import disk_errors

CLUSTER_SLOTS = 16
"""Number of trainings at a time on a cluster whose size is unknown."""


def run_search(
    points: PointPlan,
    options: Options,
    placement: Placement,
    warm_start: Sequence[str],
    console: Console,
    storage: str | None = None,
) -> int:
    """Runs what is missing of a search and of its last step; writes and prints the tables of both.

    Args:
        points: the plan of the search.
        options: of the run.
        placement: where trials run.
        warm_start: names of sweeps from whose scores it starts.
        console: where progress and tables are printed.
        storage: address of a database for the study; it may contain a secret. None: a file.

    Returns:
        The exit status, see `run_plan`; 3 also if the budget has ended the search before its last point.

    Raises:
        InputError: see `run_plan`; also a study of another search, or a sweep of another part as a warm start.
    """
    tell = partial(say, console)
    try:
        with _writing(points, tell) as writer:
            growth = _opened(points, options, placement, warm_start, storage, writer, tell)
            status = run_plan(points.plan, points.trials, options, console, growth, is_held=True)
            is_asked_to_stop = (points.ground.results.running(points.search.name) / STOP_FILE).exists()
        if not growth.has_ended:
            status = max(status, EXIT_PARTIAL)
            tell(f"the search has {Findings(history=growth.history).progress}; the same command goes on")
        if not growth.has_ended or status not in (EXIT_OK, EXIT_PARTIAL):
            return status
        if is_asked_to_stop:
            tell("asked to stop before the last step; the same command goes on")
            return EXIT_INTERRUPTED
        return max(status, _run_last_step(points, growth.history, options, console))
    except SupersededError:
        tell("not finished: another process has taken over this search")
        return EXIT_PARTIAL


@contextlib.contextmanager
def _writing(points: PointPlan, tell: Callable[[str], None]) -> Iterator[Writer]:
    """The right to write into the folder of the search, which no other process has meanwhile."""
    results = points.ground.results
    with disk_errors(results), hold(results, points.search.name, tell) as held:
        yield held.writer()


def _opened(
    points: PointPlan,
    options: Options,
    placement: Placement,
    warm_start: Sequence[str],
    storage: str | None,
    writer: Writer,
    tell: Callable[[str], None],
) -> SearchGrowth:
    """The plan that grows by the study, with all trainings of earlier runs."""
    known = known_points(points, warm_start)
    base = flatten(points.base.to_dict())
    points.folder.mkdir(parents=True, exist_ok=True)
    study = Study(study_place(points.folder, storage, writer), points.search, points.context, writer)
    queue = SearchQueue(points.search, study, points.key, base=base, known=known)
    if warm_start:
        n = len(known) - len(queue.outside)
        tell(f"warm start: {n} points are known; {len(queue.outside)} lie outside of the space")
    limit = options.budget.trials
    growth = SearchGrowth(
        queue,
        points,
        slots=placement.slots or CLUSTER_SLOTS,
        most=None if limit is None else int(limit.value),
        writer=writer,
    )
    growth.begin()
    return growth


def _run_last_step(points: PointPlan, history: SearchHistory, options: Options, console: Console) -> int:
    """Trains the best points with fresh seeds, as a sweep of its own, and says what follows for the search."""
    if not history.best:
        say(console, "no point has a score that keeps the constraints; nothing is trained again")
        return EXIT_PARTIAL
    plan, trials = final_plan(points.search, points.ground, history)
    info = replace(options.info, name=plan.name, title=plan.title, within=points.search.name)
    say(console, f"\n{plan.name}: {plan.title}; the first look at the test part")
    status = run_plan(plan, trials, replace(options, info=info, budget=_rest(options.budget, points)), console)
    fresh = fresh_scores(plan, plan.read_results())
    if status == EXIT_INTERRUPTED:
        return status
    if fresh == history.fresh:
        write_report(Standing.of(points.plan))  # lacks the fresh scores if the plan of the last step was damaged
        return status
    with _writing(points, partial(say, console)) as writer:
        tracked = Tracked(points.plan.tracked, options.info, options.tracking_uri, partial(say, console))
        tracked.forget()
        write_history(points.folder, replace(history, fresh=fresh), writer)
        standing = Standing.of(points.plan)
        findings = findings_of(points.plan)
        report = write_report(standing, findings)
        present_search(findings, console)
        if options.tracking_uri is None:
            return status
        with tracked:
            shipped = tracked.finish(report, outcome_with_search(standing, findings))
    return status if shipped else max(status, EXIT_PARTIAL)


def _rest(budget: Budget, points: PointPlan) -> Budget:
    """What the search has left of the limits that hold for all commands together."""
    if not budget.limits:
        return budget
    used = sum(read_all_usage(points.folder).values(), Usage())

    def less(limit: Limit | None, amount: float) -> Limit | None:
        return None if limit is None else replace(limit, value=max(limit.value - amount, 0.0))

    return replace(
        budget,
        gpu_hours=less(budget.gpu_hours, used.gpu_seconds),
        cpu_hours=less(budget.cpu_hours, used.cpu_seconds),
        trials=less(budget.trials, len(points.plan.rows)),
    )

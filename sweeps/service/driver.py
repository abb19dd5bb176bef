"""The order of a run: plan, run, report, track; the only file that knows all rooms."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.running import RunningPlan
from sweeps.service.plan.sweep_folder import SweepInfo, hold
from sweeps.service.report.report import check_figures, outcome_with_search, present, write_report
from sweeps.service.report.search.findings import Findings
from sweeps.service.report.search.gathering import findings_of, is_search
from sweeps.service.report.watching import watched
from sweeps.service.run.budget.admission import balanced
from sweeps.service.run.budget.budgeting import Budgeting
from sweeps.service.run.budget.limits import Budget
from sweeps.service.run.executor.engine import Ending, run_trials
from sweeps.service.run.executor.ray_environment import check_ray_folder, set_ray_environment
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.notice import Notices
from sweeps.service.run.preflight import checked_placement, marked, own_facts
from sweeps.service.run.progress import Progress
from sweeps.service.run.resources import Placement, place_trials
from sweeps.service.run.source import Growth, PlannedTrials, TrialSource, priority_first
from sweeps.service.run.stopping import StopAfterFailures
from sweeps.service.tables.best import finished_facts
from sweeps.service.tables.standing import Standing
from sweeps.service.text import say, wrapped
from sweeps.service.track.compare import registered_trials
from sweeps.service.track.tracked import Tracked, is_tracked
from sweeps.service.triage.causes import Cause, cause_of, storage_reason
from sweeps.service.triage.failures import failure_lines, failures_of
from sweeps.service.trials.cell_results import CellResult, keys_to_run
from sweeps.service.trials.trial import Trial
from sweeps.service.upkeep.retention import kept, retain
from sweeps.service.upkeep.retries import earlier_failures
from sweeps.service.upkeep.trash import disk_errors

LEAVE_SECONDS = 50.0
"""Seconds after a request to stop from which on nothing is sent to the tracking server, and no figure is drawn.

The next command does both.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        cpus: cores per trial, a number or `auto`.
        gpus: GPUs per trial, a number or `auto`.
        checkpoint_seconds: seconds between two checkpoints of a trial; 0: one after every epoch.
        tracking_uri: address of the tracking server; None: nothing is tracked.
        info: facts for the tracking server.
        max_concurrent: largest number of trials at a time; None without a limit.
        priority: the rows whose trials run first, as `TABLE: ROW`.
        budget: limits on what the sweep uses.
        started: when the command began, on the monotonic clock.
        notify: address that receives notices; it may contain a secret.
        stop_after_failures: number of trainings that fail with one cause after which the sweep stops; None: it goes on.
        system_metrics: whether trials record what they use of their machine with each epoch.
    """

    device: str
    cpus: str
    gpus: str
    checkpoint_seconds: float
    tracking_uri: str | None
    info: SweepInfo
    max_concurrent: int | None = None
    priority: frozenset[str] = frozenset()
    budget: Budget = field(default_factory=Budget)
    started: float = field(default_factory=time.monotonic)
    notify: str | None = None
    stop_after_failures: int | None = None
    system_metrics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The outcome of a run.

    Attributes:
        standing: the sweep after the run.
        interrupted: whether the run was stopped before its end.
        shipped: whether the tracking server has received everything.
        reason: why the trials could not go on; empty if they could.
    """

    standing: Standing
    interrupted: bool = False
    reason: str = ""
    shipped: bool = True


def run_plan(
    plan: Plan,
    trials: Mapping[str, Trial],
    options: Options,
    console: Console,
    growth: Growth | None = None,
    *,
    is_held: bool = False,
) -> int:
    """Runs the missing trials of a plan; writes tables, figures and page, and prints the tables.

    Ray is imported only if trials are missing, MLflow only if trials are missing or these cells were never tracked.

    Args:
        plan: the plan.
        trials: its trials, by key.
        options: of the run.
        console: where progress and tables are printed.
        growth: chooses further trials while those of the plan run; None: the plan is whole.
        is_held: whether the caller holds the lease of the sweep.

    Returns:
        The exit status: 0; 3 if cells have no value or the tracking server is incomplete; 130 if interrupted.

    Raises:
        InputError: the same sweep is running, a figure names an unknown recording, no node can run a trial, or the
            tracking server does not answer.
    """
    results = plan.read_results()
    check_figures(plan)
    for line in earlier_failures(plan.results, plan.name, results):
        say(console, line)
    is_settled = is_tracked(plan.tracked, options.tracking_uri) and kept(plan.results, plan.name) == options.info.keep
    grows = growth is not None and not growth.is_over(plan, results)
    if _missing(results, trials) or grows or not is_settled:
        try:
            with (
                nullcontext() if is_held else hold(plan.results, plan.name, partial(say, console)),
                marked(plan.results, plan.name) as mark,
            ):
                ran = _run(RunningPlan(plan, trials, results), growth if grows else None, options, mark, console)
        except Exception as error:
            if cause_of(error, plan.results.path) is not Cause.STORAGE:
                raise
            reason = storage_reason(error, plan.results.path)
            ran = Ran(standing=Standing.of(plan, results), shipped=False, reason=reason)
            _present(plan, ran.standing, console)
    else:
        ran = Ran(standing=Standing.of(plan, results))
        write_report(ran.standing)
        _present(plan, ran.standing, console)
    if ran.reason:
        say(console, f"not finished: {ran.reason}")
    elif options.info.keep is not None and not ran.interrupted:  # it asks the tracking server
        with disk_errors(plan.results):
            for line in retain(plan.results, partial(registered_trials, plan.results, options.tracking_uri)):
                say(console, line)
    if ran.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_OK if ran.standing.is_complete and ran.shipped and not ran.reason else EXIT_PARTIAL


def _present(
    plan: Plan, standing: Standing, console: Console, budget: Iterable[str] = (), findings: Findings | None = None
) -> None:
    """Prints the tables, what the failed trials have in common, and what is left of a budget."""
    present(standing, console, findings=findings)
    failures = failures_of(plan.results, plan.cells, standing.results)
    for line in (*failure_lines(failures, plan.results), *budget):
        say(console, "\n".join(wrapped(line, console.width if console.is_terminal else 0)))


def _missing(results: Mapping[str, CellResult], trials: Mapping[str, Trial]) -> list[Trial]:
    return [trials[key] for key in keys_to_run(results)]


def _run(running: RunningPlan, growth: Growth | None, options: Options, mark: Path, console: Console) -> Ran:
    """Runs the missing trials of a sweep whose lease is held, and ships them; then prints and ships the tables."""
    plan, missing = running.plan, _missing(running.results, running.trials)
    begins = bool(missing) or growth is not None
    tracked = Tracked(plan.tracked, options.info, options.tracking_uri, lambda line: say(console, line))
    if begins:
        tracked.check()
    placement = _placement(plan, list(running.trials.values()) if growth else missing, options, mark, console)
    options.budget.check(placement.each)
    budgeting = Budgeting(
        options.budget,
        priority_first(plan.parts, balanced(missing), options.priority),
        started=options.started,
        sweep=plan.folder,
        trials=running.trials,
        results=running.results,
        folder=plan.results,
        placement=placement,
    )
    running.limit({trial.key for trial in budgeting.chosen})
    begins = bool(running.to_run) or growth is not None
    if begins:
        check_ray_folder()
    plan.write()
    tracked.record()
    count = f"{len(budgeting.chosen)} to run{' and more to choose' if growth else ''}"
    say(console, f"{_counted(plan)}, {count}, {placement}, {placement.at_a_time}")
    say(console, f"results {plan.results.path}, tracking {tracked.address}")
    notices = Notices(options.notify, plan.name, partial(say, console))
    with tracked:
        ending = Ending()
        if begins:
            source = _source(running, growth, budgeting, tracked)
            ending = _train(running, source, budgeting, notices, placement, options, mark, console)
        plan = running.plan
        standing = Standing.of(plan, running.results)
        until = math.inf if ending.asked is None else ending.asked + LEAVE_SECONDS
        tracked.write_links(until)
        findings = findings_of(plan) if is_search(plan) else None
        report = write_report(standing, findings, until)
        budget = tuple(budgeting.lines(standing.results))
        _present(plan, standing, console, budget, findings)
        notices.send("finished", *finished_facts(standing, interrupted=until < math.inf, budget=budget))
        shipped = tracked.finish(report, outcome_with_search(standing, findings), until)
    notices.wait()
    return Ran(standing=standing, interrupted=until < math.inf, shipped=shipped, reason=ending.reason)


def _placement(plan: Plan, missing: list[Trial], options: Options, mark: Path, console: Console) -> Placement:
    """Where the missing trials run, after the checks of `checked_placement`; prints what looks suspicious."""

    def place(nodes: Mapping[str, tuple[float, float]] | None = None) -> Placement:
        return place_trials(options.device, options.cpus, options.gpus, nodes).limited(options.max_concurrent)

    if not missing:
        return place()
    copies = 2 if options.tracking_uri == plan.results.tracking_uri else 1
    placement, suspicious = checked_placement(place, plan.results, mark, missing, copies)
    for problem in suspicious:
        say(console, f"warning: {problem}")
    return placement


def _source(running: RunningPlan, growth: Growth | None, budgeting: Budgeting, tracked: Tracked) -> TrialSource:
    """The source of the trainings, whether the budget covers them or not."""
    if growth is None:
        return PlannedTrials(budgeting.chosen, running.plan.results.is_held)

    def extended() -> None:
        running.plan.write()
        tracked.extend(running.plan.tracked)

    return growth.source(running, extended)


def _train(
    running: RunningPlan,
    trainings: TrialSource,
    budgeting: Budgeting,
    notices: Notices,
    placement: Placement,
    options: Options,
    mark: Path,
    console: Console,
) -> Ending:
    """Runs the trials that the budget covers on Ray; returns how that ended."""
    plan, folder = running.plan, running.plan.results
    source = budgeting.source(trainings)
    if source is None:
        return Ending()
    set_ray_environment()
    workplace = Workplace(
        results=folder,
        scratch=folder.running(plan.name),
        device=placement.device,
        checkpoint_seconds=options.checkpoint_seconds,
        command=options.info.command,
        mark=mark,
        facts=own_facts(plan.store),
        sweep=plan.folder,
        system_metrics=options.system_metrics,
    )
    stopping = StopAfterFailures(source, options.stop_after_failures, folder.reading, workplace.stop_file)
    with (
        Progress(console, running.to_run, running.epochs) as progress,
        watched(running, progress, budgeting, notices, workplace.stop_file, partial(say, console)) as listeners,
    ):
        ending = run_trials(stopping, workplace, placement.each, listeners, placement.most)
    if stopping.group is not None:
        say(console, f"stopped after --stop-after-failures {options.stop_after_failures}: {stopping.group.title}")
    is_own = budgeting.has_stopped or stopping.group is not None
    return replace(ending, asked=None) if is_own else ending


def _counted(plan: Plan) -> str:
    """The number of trials, and of evaluations where there are more."""
    trials, evaluations = len(plan.rows), len(plan.cells)
    return f"{trials} trials" if evaluations == trials else f"{evaluations} evaluations of {trials} trials"

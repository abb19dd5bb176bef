"""Runs what is missing of a plan, with tracking beside it, and shows the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL, InputError
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.sweep_folder import FILE as SWEEP_FILE
from sweeps.service.plan.sweep_folder import SweepInfo, write_links, write_sweep
from sweeps.service.report.report import check_figures, write_report
from sweeps.service.run.progress import Progress
from sweeps.service.run.ray_environment import set_ray_environment
from sweeps.service.run.resources import Placement, place_trials
from sweeps.service.tables.best import best_lines
from sweeps.service.tables.table import Table
from sweeps.service.tables.text import for_terminal
from sweeps.service.track.server import check_connection
from sweeps.service.track.shipping import Shipping
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials import lease
from sweeps.service.trials.cell_results import Known
from sweeps.service.trials.folder import TO_RUN, State
from sweeps.service.trials.trial import Trial

TRACKING_EXPERIMENT = "mucon"
"""One experiment of the tracking server for all sweeps, since sweeps share trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How a sweep is run.

    Attributes:
        device: `auto`, `cpu`, `cuda`.
        cpus: for each trial, a number or `auto`.
        gpus: for each trial, a number or `auto`.
        tracking_uri: of the tracking server.
        info: what that server is told of the sweep.
    """

    device: str
    cpus: str
    gpus: str
    tracking_uri: str
    info: SweepInfo


def run_plan(plan: Plan, trials: Mapping[str, Trial], how: Running, console: Console) -> int:
    """Runs what is missing of a plan, and shows and writes its tables, figures and page.

    Where nothing is missing, Ray is not imported; where the tracking server was told of the same cells before, MLflow
    is not either.

    Returns:
        The exit status: 0, 3 when cells have no value, 130 when it was interrupted.

    Raises:
        InputError: the same sweep is running, or a figure names a recording that is none, or a trial fits nowhere, or
            the tracking server is none.
    """
    known = plan.known()
    missing = [trials[key] for key, cell in known.items() if cell.state in TO_RUN]
    interrupted, unsent = False, False
    check_figures(plan)
    if missing or not _is_tracked(plan):
        place = plan.results / "running" / plan.name
        held = lease.acquire(place)
        if held is None:
            who = lease.holder(place) or "another process"
            raise InputError(
                f"a sweep runs once at a time, {plan.name} is being run by {who} in {plan.results}: "
                "wait for it, or name another --results folder"
            )
        with held:
            interrupted, unsent = _run(plan, known, missing, how, place, console)
        known = plan.known(known)
    made = plan.tables(known)
    plan.write()
    plan.write_tables(made, known)
    write_report(plan, made, known)
    for table in made.values():
        show(table, console)
    for line in best_lines(plan, made, known, trials):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if interrupted:
        return EXIT_INTERRUPTED
    whole = all(cell.state is State.FINISHED for cell in known.values())
    return EXIT_OK if whole and not unsent else EXIT_PARTIAL


def _is_tracked(plan: Plan) -> bool:
    """Whether a sweep of this name and of these cells was run in the results folder before."""
    if not (plan.folder / SWEEP_FILE).exists():
        return False
    try:
        before = read_plan(plan.results, plan.name)
    except InputError:  # of another format version: it is written anew
        return False
    return [str(cell) + cell.key for cell in before.cells] == [str(cell) + cell.key for cell in plan.cells]


def show(table: Table, console: Console) -> None:
    """Prints a table and its notes but those of differences, which are long and stand in its files."""
    console.print(for_terminal(table, console))
    for note in table.notes:
        if note not in table.differences:
            console.print(note, markup=False, highlight=False, soft_wrap=True)


def _run(
    plan: Plan, before: Mapping[str, Known], missing: Sequence[Trial], how: Running, place: Path, console: Console
) -> tuple[bool, bool]:
    """Runs trials with tracking beside them; tells whether it was interrupted and whether something was not shipped."""
    where = place_trials(how.device, how.cpus, how.gpus)
    rows = {cell.identity: cell.variant.name for cell in plan.cells}
    tracker = Tracker(how.tracking_uri, TRACKING_EXPERIMENT, how.info, rows)
    _check_answers(tracker.uri)
    plan.write()
    write_sweep(plan.results, how.info, TRACKING_EXPERIMENT, rows)
    console.print(
        f"{_counted(plan)}, {len(missing)} to run, on {where.device}, {where.each}",
        markup=False,
        highlight=False,
    )
    console.print(f"results {plan.results}, tracking {tracker.uri}", markup=False, highlight=False, soft_wrap=True)
    shipping = Shipping(tracker, [plan.results / "trials" / identity for identity in rows])
    try:
        interrupted = bool(missing) and _train(plan, missing, how, where, place, console)
        known = plan.known(before)
        made = plan.tables(known)
        write_links(plan.folder, shipping.links())
        shipment = shipping.finish({**plan.write_tables(made, known), **write_report(plan, made, known)})
    except BaseException:
        shipping.abandon()
        raise
    for line in shipment.lines(plan.results, tracker.uri):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if shipment.unreachable is None:
        console.print(f"tracked: {shipping.where}", markup=False, highlight=False, soft_wrap=True)
    return interrupted, bool(shipment.pending) or shipment.unreachable is not None


def _train(plan: Plan, missing: Sequence[Trial], how: Running, where: Placement, place: Path, console: Console) -> bool:
    """Runs trials on Ray; tells whether they were interrupted."""
    set_ray_environment()
    from sweeps.service.run.engine import run_trials  # imports ray, which reads its environment then

    names = {cell.key: str(cell) for cell in plan.cells if cell.key in {trial.key for trial in missing}}
    with Progress(console, names) as progress:
        return run_trials(
            missing,
            results=plan.results,
            scratch=place,
            device=where.device,
            each=where.each,
            listener=progress,
            command=how.info.command,
        )


def _counted(plan: Plan) -> str:
    """How many trials, and in how many ways they are evaluated where that is more."""
    trials = len({cell.identity for cell in plan.cells})
    ways = len(plan.cells)
    return f"{trials} trials" if ways == trials else f"{ways} evaluations of {trials} trials"


def _check_answers(uri: str) -> None:
    try:
        check_connection(uri)
    except OSError as error:
        raise InputError(
            f"a tracking server answers when a sweep starts, the one at {uri} does not ({error}): start it, or name "
            "another with --tracking-uri"
        ) from error

"""What happens beside the trials of a running sweep: the budget, notices, and the live page."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from mucon.errors import InputError
from sweeps.service.plan.imported import read_imported
from sweeps.service.plan.running import RunningPlan
from sweeps.service.report.live import LivePage, live_about, live_sections
from sweeps.service.report.page import document
from sweeps.service.run.budget.budgeting import Budgeting
from sweeps.service.run.events import Events
from sweeps.service.run.listeners import Listeners
from sweeps.service.run.notice import Notices
from sweeps.service.run.progress import Progress
from sweeps.service.run.ticker import Ticker
from sweeps.service.tables.standing import Standing
from sweeps.service.triage.failures import Failure
from sweeps.service.trials.cell_results import CellResult, read_result
from sweeps.service.trials.folder import State

EVENT_SECONDS = 5.0
PAGE_SECONDS = 1.0


@contextlib.contextmanager
def watched(
    running: RunningPlan,
    progress: Progress,
    budgeting: Budgeting,
    notices: Notices,
    stop_file: Path,
    warn: Callable[[str], None],
) -> Iterator[Listeners]:
    """Keeps the budget, posts notices and writes the live page while trials run in the block.

    Args:
        running: the plan of the sweep.
        progress: how far the running trials are.
        budgeting: the budget.
        notices: posts what is worth knowing.
        stop_file: the file that asks the trials to stop.
        warn: receives a line for what fails beside the sweep.

    Yields:
        Who has to hear of the trials' progress.
    """

    def failure_of(identity: str) -> Failure | None:
        with contextlib.suppress(InputError):  # damaged, which is a state of the trial
            return Failure.recorded(running.plan.results.reading(identity).last_status)
        return None

    events = Events(
        notices,
        running.cells,
        failure_of,
        lambda: budgeting.spending.largest_share,
    )
    page = LivePage(running.plan.folder, page_maker(running, progress, budgeting))
    try:
        with (
            budgeting.watched(stop_file, warn),
            Ticker(events.check, EVENT_SECONDS, warn, last=True),
            Ticker(page.check, PAGE_SECONDS, warn),
        ):
            yield Listeners(progress, budgeting, events, page)
    except BaseException:
        with contextlib.suppress(Exception):
            page.close()
        raise


def page_maker(
    running: RunningPlan, progress: Progress, budgeting: Budgeting
) -> Callable[[Sequence[str], int | None], str]:
    """Returns a function that makes the live page; it reads only the trials that have ended since its last call."""
    ends: dict[str, CellResult] = {}
    started = time.time()
    imported = read_imported(running.plan.folder)  # an import waits for the end of the sweep

    def make(ended: Sequence[str], reload_seconds: int | None) -> str:
        plan, cells, now = running.plan, dict(running.cells), progress.running
        for key in ended:
            ends[key] = read_result(plan.results.reading(cells[key].identity), cells[key].evaluation)
        current = dict(running.results) | ends
        shown = current | {key: replace(current[key], state=State.RUNNING) for key in now}
        about = live_about(
            plan.name,
            Counter(result.state for result in shown.values()),
            started=started,
            left=progress.seconds_left,
            budget=budgeting.used_lines(),
            is_over=reload_seconds is None,
        )
        tables = list(Standing.with_results(plan, shown, imported).tables.values())
        sections = list(live_sections(cells, shown, now, tables))
        footer = f"Figures and all trials: <code>mucon-sweeps report {escape(plan.name)}</code>."
        return document(
            f"{plan.name}: {plan.title}", plan.title, about, sections, footer, reload_seconds=reload_seconds
        )

    return make

"""Notices what is worth knowing while trials run: failures, a budget that ends, and silence."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.service.plan.cells import Cell
from sweeps.service.run.budget.limits import Limit
from sweeps.service.run.notice import Notices
from sweeps.service.run.worker import Outcome
from sweeps.service.text import duration
from sweeps.service.triage.failures import FAILURES, Failed, Failure

IDENTICAL_FAILURES = 3
"""Number of trainings that fail with one cause that is worth a notice."""
BUDGET_SHARE = 0.8
"""Share of the budget at which a notice is posted."""
QUIET_SECONDS = 1800.0
QUIET_EPOCHS = 10
"""A notice of no progress is posted after both that many seconds and that many times the longest epoch so far."""


class Events:
    """A listener that posts notices of a running sweep.

    Args:
        notices: posts them.
        cells: key -> cell of each trial.
        failure: returns the recorded error of a training, by its identity; None if there is none.
        largest_share: returns the limit of which most has been used, and that share; None without limits.
        clock: seconds.
    """

    def __init__(
        self,
        notices: Notices,
        cells: Mapping[str, Cell],
        failure: Callable[[str], Failure | None],
        largest_share: Callable[[], tuple[Limit, float] | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notices = notices
        self._cells = cells
        self._failure = failure
        self._largest_share = largest_share
        self._clock = clock
        self._last = clock()
        self._epoch_seconds = 0.0
        self._failed: dict[tuple[object, ...], dict[str, str]] = defaultdict(dict)

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""
        self._last = self._clock()
        self._epoch_seconds = max(self._epoch_seconds, values.get("seconds", 0.0) / values["epoch"])

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended."""
        self._last = self._clock()
        if outcome.state not in FAILURES:
            return
        cell, reason = self._cells[key], outcome.reason or str(outcome.state)
        failed = Failed(
            identity=cell.identity,
            name=str(cell),
            state=outcome.state,
            reason=outcome.reason,
            failure=self._failure(cell.identity),
        )
        same = self._failed[failed.key]
        same.setdefault(cell.identity, key)
        text = f"first failure: {cell} {outcome.state}: {reason}"
        self._notices.send("first_failure", text, {"trial": self._trial(key), "reason": reason})
        if len(same) >= IDENTICAL_FAILURES:
            facts = {"trials": [self._trial(one) for one in same.values()], "reason": reason, "count": len(same)}
            self._notices.send("same_failures", f"{len(same)} trials failed with one cause: {reason}", facts)

    def note(self, text: str, key: str | None = None) -> None:
        """Does nothing."""

    def check(self) -> None:
        """Posts what time brings; called again and again beside the sweep."""
        used = self._largest_share()
        if used is not None and used[1] >= BUDGET_SHARE:
            limit, share = used
            facts = {"limit": limit.option, "share": round(share, 3)}
            self._notices.send("budget", f"{100 * share:.0f} % of the budget is used: {limit}", facts)
        quiet = self._clock() - self._last
        if quiet > max(QUIET_SECONDS, QUIET_EPOCHS * self._epoch_seconds):
            text = f"no epoch and no result for {duration(quiet)}"
            self._notices.send("no_progress", text, {"seconds": round(quiet)})

    def _trial(self, key: str) -> dict[str, Any]:
        cell = self._cells[key]
        return {"identity": cell.identity, "row": cell.variant.name, "split": cell.split, "seed": cell.seed}

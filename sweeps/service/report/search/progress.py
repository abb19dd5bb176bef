"""How far a search has come, read from its folder and that of its last step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mucon.errors import InputError
from sweeps.service.report.search.findings import Findings
from sweeps.service.report.search.texts import best_point
from sweeps.service.search.points import FILE, PointRecord, SearchHistory, final_name, read_history
from sweeps.service.triage.status import SweepState, SweepStatus
from sweeps.service.trials import lease
from sweeps.service.trials.results_folder import ResultsFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProgress:
    """How far a search has come.

    Attributes:
        history: its points; None if their file is damaged.
        damage: why they cannot be read; empty if they can.
        last_step: name of the sweep of the last step.
        runner: process that runs the last step; None if none does.
    """

    history: SearchHistory | None
    damage: str
    last_step: str
    runner: str | None

    @classmethod
    def of(cls, results: ResultsFolder, name: str) -> SearchProgress | None:
        """The progress of a sweep that is a search; None for another one."""
        if not (results.sweep(name) / FILE).exists():
            return None
        history, damage = None, ""
        try:
            history = read_history(results.sweep(name))
        except InputError as error:
            damage = error.line
        holder = lease.holder(results.running(final_name(name)))
        runner = None if holder is None else str(holder)
        return cls(history=history, damage=damage, last_step=final_name(name), runner=runner)

    @property
    def is_complete(self) -> bool:
        """Whether all points have been tried, and the best of them with fresh seeds."""
        history = self.history
        return history is not None and history.is_over and bool(history.fresh or not history.best)

    def with_it(self, status: SweepStatus) -> SweepStatus:
        """The status of the sweep: it is not finished before its last step, which belongs to it."""
        if status.runner is None and self.runner is not None:
            return replace(status, state=SweepState.RUNNING, runner=self.runner)
        if status.runner is None and not self.is_complete:
            return replace(status, state=SweepState.INCOMPLETE)
        return status

    def line(self) -> str:
        """The points, the best of them, and what is still to come."""
        if self.history is None:
            return f"search: {self.damage}"
        findings = Findings(history=self.history)
        best = best_point(findings)
        if self.history.fresh:
            last = f"fresh scores of {len(self.history.fresh)} points"
        else:
            last = f"last step {self.last_step} {'runs' if self.runner else 'to come'}" if self.history.best else ""
        return "; ".join(filter(None, (f"search: {findings.progress}", best and f"best: {best}", last)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the points by state, the best one, and the last step."""
        history = self.history or SearchHistory(search={"trials": 0, "objectives": []})
        best = [history.record(number) for number in history.ranked[:1]]
        states = [record.state for record in history.records]
        return {
            "trials": history.search["trials"],
            "points": {state: states.count(state) for state in sorted(set(states))},
            "best": next(({**_plain(one), "objectives": history.search["objectives"]} for one in best), None),
            "last_step": self.last_step,
            "fresh": len(history.fresh),
            "complete": self.is_complete,
            "damage": self.damage,
        }


def _plain(record: PointRecord) -> dict[str, Any]:
    return {
        "point": record.point.number,
        "settings": dict(record.point.settings),
        "seeds": record.n,
        "mean": list(record.mean),
        "std": list(record.std) if record.n > 1 else None,
    }

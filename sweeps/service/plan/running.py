"""A plan while its trials run, and what adds trials to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.durations import missing_epochs
from sweeps.service.plan.plan import Plan
from sweeps.service.trials.cell_results import CellResult, keys_to_run
from sweeps.service.trials.trial import Trial


class RunningPlan:
    """A plan that a search, or a rule for the number of seeds, extends while its trials run.

    The mappings are changed in place, so that whoever holds one sees the further cells.

    Attributes:
        plan: the plan as it is now.
        trials: key -> trial.
        results: key -> state and scores when the cell was planned.
        cells: key -> cell.
        to_run: key -> cell, of those that this run trains or evaluates.
    """

    def __init__(self, plan: Plan, trials: Mapping[str, Trial], results: Mapping[str, CellResult]) -> None:
        self.plan = plan
        self.trials, self.results = dict(trials), dict(results)
        self.cells: dict[str, Cell] = {cell.key: cell for cell in plan.cells}
        self.to_run = {key: self.cells[key] for key in keys_to_run(results)}
        self._counted: Plan | None = None
        self._epochs: dict[str, int] = {}

    def epochs(self) -> Mapping[str, int]:
        """Identity of a training -> epochs that it needed when its cells were planned, see `missing_epochs`."""
        plan = self.plan
        if plan is not self._counted:
            self._epochs = missing_epochs(plan.parts, self.results)
            self._counted = plan
        return self._epochs

    def limit(self, keys: Collection[str]) -> None:
        """Leaves the cells with other keys to a later run."""
        for key in self.to_run.keys() - set(keys):
            del self.to_run[key]

    def extend(self, plan: Plan, trials: Mapping[str, Trial], results: Mapping[str, CellResult]) -> None:
        """Replaces the plan by one with further cells.

        Args:
            plan: contains all earlier cells.
            trials: at least those of the further cells.
            results: the same, with their states and scores.
        """
        self.trials.update({key: trial for key, trial in trials.items() if key not in self.trials})
        self.results.update({key: result for key, result in results.items() if key not in self.results})
        further = {cell.key: cell for cell in plan.cells if cell.key not in self.cells}
        self.cells.update(further)
        self.to_run.update({key: further[key] for key in keys_to_run(results) if key in further})
        self.plan = plan

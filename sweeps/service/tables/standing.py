"""Where a sweep stands: its plan, the results of its cells and the tables made from them, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sweeps.service.plan.plan import Part, Plan
from sweeps.service.tables.table import Table, make_table
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A sweep at one moment.

    Attributes:
        plan: the sweep.
        results: state and scores of each cell, by key.
        tables: its tables, by the experiments' names.
        trials: its trials by key; empty where the sweep was read back from its results folder.
    """

    plan: Plan
    results: Mapping[str, CellResult]
    tables: Mapping[str, Table]
    trials: Mapping[str, Trial] = field(default_factory=dict)

    @classmethod
    def of(
        cls, plan: Plan, trials: Mapping[str, Trial] | None = None, earlier: Mapping[str, CellResult] | None = None
    ) -> Standing:
        """The sweep as its trials' directories have it now.

        Args:
            plan: the sweep.
            trials: its trials by key, where they are at hand.
            earlier: results of an earlier moment; finished cells are not read again.
        """
        results = plan.read_results(earlier)
        tables = {
            part.experiment.name: make_table(part.experiment, part.cells, results, plan.splits, pooling=part.pooling)
            for part in plan.parts
        }
        return cls(plan=plan, results=results, tables=tables, trials=trials or {})

    @property
    def is_complete(self) -> bool:
        """Whether every cell has a result."""
        return all(result.is_finished for result in self.results.values())

    def table(self, part: Part) -> Table:
        """The table of a part of the plan."""
        return self.tables[part.experiment.name]

"""The current state of a sweep as one value: its plan, the results of its cells and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.service.plan.imported import Imported, read_imported
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.tables.table import NOTHING_IMPORTED, Table, make_table
from sweeps.service.trials.cell_results import CellResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A sweep at one moment.

    Attributes:
        plan: plan of the sweep.
        results: state and scores of each cell, by key.
        tables: tables by name of the experiment.
        imported: rows with results from elsewhere.
    """

    plan: Plan
    results: Mapping[str, CellResult]
    tables: Mapping[str, Table]
    imported: Imported = NOTHING_IMPORTED

    @classmethod
    def of(cls, plan: Plan, earlier: Mapping[str, CellResult] | None = None) -> Standing:
        """Reads the trial directories and makes the tables.

        Args:
            plan: plan of the sweep.
            earlier: results of an earlier reading; finished cells are not read again.
        """
        return cls.with_results(plan, plan.read_results(earlier), read_imported(plan.folder))

    @classmethod
    def with_results(
        cls, plan: Plan, results: Mapping[str, CellResult], imported: Imported = NOTHING_IMPORTED
    ) -> Standing:
        """Makes the tables of results, and of imported rows, that have been read."""
        tables = {
            part.experiment.name: make_table(
                part.experiment,
                part.cells,
                results,
                plan.splits,
                pooling=part.pooling,
                imported=imported,
                part=plan.part,
                rule=plan.seed_rule,
                facts=part.facts,
            )
            for part in plan.parts
        }
        return cls(plan=plan, results=results, tables=tables, imported=imported)

    @property
    def is_complete(self) -> bool:
        """Whether every cell has a result."""
        return all(result.is_finished for result in self.results.values())

    def table(self, part: Part) -> Table:
        """The table of a part."""
        return self.tables[part.experiment.name]

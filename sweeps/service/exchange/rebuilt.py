"""Makes tables, p values and figures of a sweep again, from its results file alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mucon.errors import InputError, Problem
from sweeps.service.exchange.reading import HINT, ResultsFile, read_results_file
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.imported import Imported
from sweeps.service.plan.plan import FORMAT_VERSION as PLAN_VERSION
from sweeps.service.plan.plan import Plan, plan_of
from sweeps.service.report.figures.pictures import draw_pictures, pictures_of
from sweeps.service.report.report import write_tables
from sweeps.service.report.trainings import Training
from sweeps.service.search.points import FILE as SEARCH_FILE
from sweeps.service.search.points import write_history
from sweeps.service.spec.texts import name_problems
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.json_files import damaged, misfit
from sweeps.service.trials.results_folder import ResultsFolder

NOT_REBUILT = "the page, segmentations, models and their commands need the results folder"
CELLS_SHAPE = {"tables": [{"cells": [list]}], "splits": dict, "store": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A sweep that was read from its results file.

    Attributes:
        standing: the sweep; the directories of its trials need not exist.
        file: the content of the file.
    """

    standing: Standing
    file: ResultsFile

    def write(self, folder: Path) -> Iterator[Path]:
        """Writes tables, trials.parquet, figures and the points of a search into a folder; yields their paths.

        Segmentations are not drawn, as the recordings are not in the file.
        """
        folder.mkdir(parents=True, exist_ok=True)
        yield from write_tables(self.standing, folder).values()
        trainings = {cell.identity: self._training(cell) for cell in self.standing.plan.cells}
        pictures = []
        for part in self.standing.plan.parts:
            shape = part.experiment
            is_drawn = shape.figure is None or shape.figure.kind != "segmentations"
            shown = part if is_drawn else replace(part, experiment=replace(shape, figure=None))
            found = pictures_of(shown, self.standing, trainings)
            pictures += [picture for picture in found if is_drawn or picture.name != shape.name]
        yield from draw_pictures(pictures, folder).values()
        if self.file.search is not None:
            write_history(folder, self.file.search)
            yield folder / SEARCH_FILE

    def _training(self, cell: Cell) -> Training:
        result = self.standing.results[cell.key]
        return Training(
            identity=cell.identity,
            rows=(),
            split=cell.split,
            seed=cell.seed,
            state=result.state,
            reason=result.reason,
            epochs=0,
            epoch_seconds=None,
            curves=self.file.curves.get(cell.identity, {}),
            config={},
            environment={},
            link=None,
        )


def rebuild(path: Path, *, with_figures: bool) -> Rebuilt:
    """Reads a results file, and makes its tables.

    Args:
        path: the file.
        with_figures: whether to read what figures need, too.

    Raises:
        InputError: see `read_results_file`; or the plan in it is damaged.
    """
    file = read_results_file(path, with_curves=with_figures)
    try:
        plan = _plan(file)
        missing = {cell.key for cell in plan.cells} ^ set(file.results)
        if missing:
            raise damaged(path, f"plan and trials differ in {min(missing)}", HINT)
        standing = Standing.with_results(plan, file.results, Imported(file.imported))
    except (AttributeError, ArithmeticError, KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError) and error.problems[0].rule in ("damaged", "version"):
            raise
        raise damaged(path, str(error), HINT) from error
    return Rebuilt(standing=standing, file=file)


def _plan(file: ResultsFile) -> Plan:
    """The plan in a results file; its folder is a place below that file, where nothing can be read or written."""
    value = file.plan
    if value.get("format_version") != PLAN_VERSION:
        expected = f"a plan of format version {PLAN_VERSION}"
        raise InputError(
            Problem(rule="version", place=str(file.path), value=value.get("format_version"), expected=expected)
        )
    if wrong := misfit(value, CELLS_SHAPE):
        raise damaged(file.path, wrong, HINT)
    for table in value["tables"]:
        for cell in table["cells"]:
            row, split, seed, *_ = cell
            if not (type(row) is int and 0 <= row < len(table["rows"]) and split in value["splits"]):
                raise damaged(file.path, f"cell {cell!a}", HINT)
            if type(seed) is not int:
                raise damaged(file.path, f"cell {cell!a}", HINT)
    if any(name_problems("name", value["name"])):
        raise damaged(file.path, f"name {value['name']!a}", HINT)
    return plan_of(value, ResultsFolder(file.path.absolute()), file.path)

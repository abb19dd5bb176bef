"""A sweep's plan: the cells of its table, what is known of them, and the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mucon.config import TrainConfig
from mucon.errors import InputError
from storage import open_store
from sweeps.service import tables
from sweeps.service.experiment import Cell, Column, Experiment, Trial, Variant, expand
from sweeps.service.recordings import SplitData, absolute, split_data, split_facts, split_names
from sweeps.service.tables import Known, Table
from sweeps.service.trial_folder import State, TrialFolder, write_json

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A table and where it stands, whether trained or read back.

    Attributes:
        experiment: the table's shape.
        cells: its trials in their places.
        splits: name -> what the store says of it.
        results: absolute path of the results folder.
        store: absolute path of the store.
    """

    experiment: Experiment
    cells: tuple[Cell, ...]
    splits: Mapping[str, SplitData]
    results: Path
    store: str

    @property
    def folder(self) -> Path:
        """The sweep's own folder: its plan and its tables."""
        return self.results / "sweeps" / self.experiment.name

    def known(self) -> dict[str, Known]:
        """Of each cell, by key, what its trial's folder says now."""
        found = {}
        for cell in self.cells:
            folder = TrialFolder(self.results / "trials" / cell.identity)
            result = folder.result(cell.evaluation)
            if result is not None:
                found[cell.key] = Known(State.FINISHED, None, result["scores"])
            else:
                found[cell.key] = Known(*folder.unfinished_state())
        return found

    def table(self, known: Mapping[str, Known]) -> Table:
        """The table of what is known."""
        return tables.make_table(self.experiment, self.cells, known, self.splits)

    def write_tables(self, table: Table) -> dict[str, Path]:
        """Writes the table beside the plan, as `NAME.md` and `NAME.csv`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = {"md": tables.markdown(table), "csv": tables.comma_separated(table)}
        paths = {f"{self.experiment.name}.{kind}": self.folder / f"{self.experiment.name}.{kind}" for kind in texts}
        for path, text in zip(paths.values(), texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    def write(self) -> None:
        """Writes the plan, from which `read_plan` makes the table again without store or experiment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shape = self.experiment
        value = {
            "format_version": FORMAT_VERSION,
            "name": shape.name,
            "title": shape.title,
            "label_titles": shape.label_titles,
            "columns": [asdict(column) for column in shape.columns],
            "rows": [{"labels": row.labels, "settings": dict(row.settings)} for row in shape.variants],
            "cells": [
                [shape.variants.index(cell.variant), cell.split, cell.seed, cell.identity, cell.evaluation]
                for cell in self.cells
            ],
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "store": self.store,
        }
        write_json(self.folder / "plan.json", value)


def make_plan(
    experiment: Experiment,
    *,
    store: Path,
    base: TrainConfig,
    settings: Mapping[str, object],
    seeds: Sequence[int],
    splits: Sequence[str],
    results: Path,
) -> tuple[Plan, dict[str, Trial]]:
    """The plan of a sweep over a store, and each of its trials by key.

    Args:
        experiment: the table.
        store: the recordings.
        base: configuration under the rows.
        settings: path -> value of the command line; they win over the rows'.
        seeds: of the trials.
        splits: names, or `all` alone.
        results: the results folder.

    Raises:
        InputError: whatever is wrong with the settings or the recordings.
        StoreError: whatever is wrong with the store.
    """
    opened = open_store(store)
    names = split_names(opened) if list(splits) == ["all"] else splits
    looked_at = {name: split_data(opened, name) for name in names}
    facts = {name: split_facts(opened, name) for name in names}
    trials = expand(
        experiment,
        base=base,
        settings=settings,
        seeds=seeds,
        splits=tuple(names),
        fingerprint=lambda split, config: facts[split].fingerprint(config),
        store=absolute(store),
    )
    plan = Plan(
        experiment=experiment, cells=tuple(trials), splits=looked_at, results=results.absolute(), store=absolute(store)
    )
    return plan, {trial.key: trial for trial in trials.values()}


def read_plan(results: Path, name: str) -> Plan:
    """The plan that a sweep wrote when it last ran.

    Raises:
        InputError: there is none, or it has another format version.
    """
    path = results.absolute() / "sweeps" / name / "plan.json"
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted(found.parent.name for found in results.glob("sweeps/*/plan.json")))
        raise InputError(
            f"a sweep that has run has a plan, {name!r} has none in {results} (there: {known or 'no sweep'}): "
            "run it, or name another --results folder"
        ) from None
    if value["format_version"] != FORMAT_VERSION:
        raise InputError(
            f"this program reads plans of format version {FORMAT_VERSION}, {path} has {value['format_version']!r}: "
            "run the sweep again"
        )
    rows = tuple(Variant(labels=tuple(row["labels"]), settings=row["settings"]) for row in value["rows"])
    experiment = Experiment(
        name=value["name"],
        title=value["title"],
        label_titles=tuple(value["label_titles"]),
        variants=rows,
        columns=tuple(Column(**column) for column in value["columns"]),
    )
    return Plan(
        experiment=experiment,
        cells=tuple(
            Cell(variant=rows[row], split=split, seed=seed, identity=identity, evaluation=evaluation)
            for row, split, seed, identity, evaluation in value["cells"]
        ),
        splits={name: SplitData(**split) for name, split in value["splits"].items()},
        results=results.absolute(),
        store=value["store"],
    )

"""A sweep's plan: the cells of its tables, what is known of them, and the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mucon.config import TrainConfig
from mucon.errors import InputError
from storage import open_store
from sweeps.service.plan.cells import Cell, expand
from sweeps.service.plan.recordings import SplitData, absolute, split_data, split_facts, split_names
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.tables.latex import latex
from sweeps.service.tables.parquet import write_trials
from sweeps.service.tables.table import Table, make_table
from sweeps.service.tables.text import comma_separated, markdown
from sweeps.service.trials.cell_results import Known, read_known
from sweeps.service.trials.folder import State, TrialFolder, write_json
from sweeps.service.trials.trial import Trial

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table of a sweep.

    Attributes:
        experiment: its shape.
        cells: its trials in their places.
        pooling: frames of a latent frame in the configuration under the rows; None where that is not known.
    """

    experiment: Experiment
    cells: tuple[Cell, ...]
    pooling: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep and where it stands, whether trained or read back.

    Attributes:
        name: of the sweep.
        title: what its tables have in common.
        parts: its tables.
        splits: name -> what the store says of it.
        results: absolute path of the results folder.
        store: absolute path of the store.
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    splits: Mapping[str, SplitData]
    results: Path
    store: str

    @property
    def folder(self) -> Path:
        """The sweep's own folder: its plan and its tables."""
        return self.results / "sweeps" / self.name

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Of all tables; a trial that stands in several places stands here with the first."""
        found: dict[str, Cell] = {}
        for part in self.parts:
            for cell in part.cells:
                found.setdefault(cell.key, cell)
        return tuple(found.values())

    def known(self, before: Mapping[str, Known] | None = None) -> dict[str, Known]:
        """Of each cell, by key, what its trial's folder says now.

        Args:
            before: what an earlier call has found; what was finished then is not read again.
        """
        found = {key: cell for key, cell in (before or {}).items() if cell.state is State.FINISHED}
        shown: dict[str, set[tuple[str, str]]] = {}
        for part in self.parts:
            for cell in part.cells:
                columns = part.experiment.columns
                shown.setdefault(cell.key, set()).update(column.of(cell.variant) for column in columns)
        return {
            cell.key: found[cell.key]
            if cell.key in found
            else read_known(TrialFolder(self.results / "trials" / cell.identity), cell.evaluation, shown[cell.key])
            for cell in self.cells
        }

    def tables(self, known: Mapping[str, Known]) -> dict[str, Table]:
        """By the experiments' names, the tables of what is known."""
        return {
            part.experiment.name: make_table(part.experiment, part.cells, known, self.splits, pooling=part.pooling)
            for part in self.parts
        }

    def write_tables(self, made: Mapping[str, Table], known: Mapping[str, Known]) -> dict[str, Path]:
        """Writes the tables beside the plan: `TABLE.md`, `.csv` and `.tex` of each, `trials.parquet` of all trials.

        Args:
            made: the tables, by name.
            known: of each cell, by key.

        Returns:
            Name -> file.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = {
            f"{name}.{kind}": write(table)
            for name, table in made.items()
            for kind, write in {"md": markdown, "csv": comma_separated, "tex": latex}.items()
        }
        for name, text in texts.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        trials = {part.experiment.name: (part.experiment, part.cells) for part in self.parts}
        write_trials(self.folder / "trials.parquet", self.name, trials, known)
        return {name: self.folder / name for name in (*texts, "trials.parquet")}

    def write(self) -> None:
        """Writes the plan, from which `read_plan` makes the tables again without store or experiment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        value = {
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "title": self.title,
            "tables": [_part_to_dict(part) for part in self.parts],
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "store": self.store,
        }
        write_json(self.folder / "plan.json", value)


def _part_to_dict(part: Part) -> dict[str, Any]:
    shape = part.experiment
    return {
        "name": shape.name,
        "title": shape.title,
        "label_titles": shape.label_titles,
        "default_row": shape.default_row,
        "pooling": part.pooling,
        "figure": None if shape.figure is None else asdict(shape.figure),
        "columns": [asdict(column) for column in shape.columns],
        "rows": [{**asdict(row), "settings": dict(row.settings)} for row in shape.variants],
        "cells": [
            [shape.variants.index(cell.variant), cell.split, cell.seed, cell.identity, cell.evaluation]
            for cell in part.cells
        ],
    }


def _part_from_dict(value: Mapping[str, Any]) -> Part:
    rows = tuple(Variant(**{**row, "labels": tuple(row["labels"])}) for row in value["rows"])
    experiment = Experiment(
        name=value["name"],
        title=value["title"],
        label_titles=tuple(value["label_titles"]),
        variants=rows,
        columns=tuple(Column(**column) for column in value["columns"]),
        default_row=value.get("default_row"),
        figure=None if (figure := value.get("figure")) is None else Figure(**figure),
    )
    cells = tuple(
        Cell(variant=rows[row], split=split, seed=seed, identity=identity, evaluation=evaluation)
        for row, split, seed, identity, evaluation in value["cells"]
    )
    return Part(experiment=experiment, cells=cells, pooling=value.get("pooling"))


def make_plan(
    experiment: Experiment | Collection,
    *,
    store: Path,
    base: Callable[[Experiment], TrainConfig],
    settings: Mapping[str, object],
    seeds: Sequence[int],
    splits: Sequence[str],
    results: Path,
) -> tuple[Plan, dict[str, Trial]]:
    """The plan of a sweep over a store, and each of its trials by key.

    Args:
        experiment: the table, or the tables.
        store: the recordings.
        base: configuration under the rows of a table.
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
    bases = {table.name: base(table).with_values(dict(settings)) for table in experiment.experiments}
    poolings = {config.backbone.pooling for config in bases.values()}
    looked_at = {name: split_data(opened, name, poolings) for name in names}
    facts = {name: split_facts(opened, name) for name in names}
    prints: dict[tuple[str, float, int | None], str] = {}

    def fingerprint(split: str, config: TrainConfig) -> str:
        """Of all cells that see the same data, hashed once."""
        share = config.training.labelled
        seen = (split, share, config.seed if share else None)
        if seen not in prints:
            prints[seen] = facts[split].fingerprint(config)
        return prints[seen]

    parts, trials = [], {}
    for shape in experiment.experiments:
        table = shape.with_default_row(base(shape), settings)
        made = expand(
            table,
            base=base(table),
            settings=settings,
            seeds=seeds,
            splits=tuple(names),
            fingerprint=fingerprint,
            store=absolute(store),
        )
        parts.append(Part(experiment=table, cells=tuple(made), pooling=bases[table.name].backbone.pooling))
        trials.update({trial.key: trial for trial in made.values()})
    plan = Plan(
        name=experiment.name,
        title=experiment.title,
        parts=tuple(parts),
        splits=looked_at,
        results=results.absolute(),
        store=absolute(store),
    )
    return plan, trials


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
    return Plan(
        name=value["name"],
        title=value["title"],
        parts=tuple(_part_from_dict(part) for part in value["tables"]),
        splits={name: SplitData(**split) for name, split in value["splits"].items()},
        results=results.absolute(),
        store=value["store"],
    )

"""The plan of a sweep: the cells of its tables and their trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from mucon.configuration import DEFAULT_METHOD, Config
from mucon.errors import InputError, Problem, nearest, some
from mucon.methods import method_named
from mucon.videos import ScoredPart, scored_part
from storage import open_store
from storage.remote.addresses import StorePlace, absolute
from sweeps.service.plan.background import check_rules
from sweeps.service.plan.cells import Cell, RowConfigs, expand, precision_problems, row_configs, settings_by_method
from sweeps.service.plan.recordings import (
    SplitData,
    also_tested,
    fingerprints,
    model_problems,
    split_data,
    split_facts,
    split_names,
)
from sweeps.service.plan.row_facts import RowFacts
from sweeps.service.plan.stored import as_stored
from sweeps.service.plan.sweep_folder import SweepCells
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.quoted import Quoted
from sweeps.service.spec.seeds import SeedRule
from sweeps.service.spec.texts import name_problems
from sweeps.service.text import digest
from sweeps.service.trials.cell_results import CellResult, read_result
from sweeps.service.trials.continuing import linked
from sweeps.service.trials.identity import is_identity
from sweeps.service.trials.json_files import ANY_KEY, NUMBER, damaged, misfit, read_json, write_json
from sweeps.service.trials.known_results import read_known, stamp_of
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

FORMAT_VERSION = 2
FILE = "plan.json"
HINT = "run the sweep again; no trial is lost"
TABLE_SHAPE = {
    **{"name": str, "title": str, "label_titles": [str], "columns": [{}], "rows": [{"labels": [str], "settings": {}}]},
    "cells": [list],
}
SHAPE = {"name": str, "title": str, "tables": [TABLE_SHAPE], "splits": {ANY_KEY: {}}, "store": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table of a sweep.

    Attributes:
        experiment: rows and columns.
        cells: one per row, split and seed.
        pooling: frames per latent frame in the base configuration; None if unknown.
        settings: by the labels of each row, path -> value of what differs from the method's defaults, without the
            seed; empty in plans of earlier versions.
        facts: how the rows are trained, by their labels; empty in plans of earlier versions.
    """

    experiment: Experiment
    cells: tuple[Cell, ...]
    pooling: int | None = None
    settings: Mapping[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[tuple[str, ...], RowFacts] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment, trials: Mapping[Cell, Trial], pooling: int, rows: RowConfigs) -> Part:
        """The table of an experiment with its trials, and the configuration that each row asks for."""
        asked = {row.labels: config for row, config in rows}
        return cls(
            experiment=experiment,
            cells=tuple(trials),
            pooling=pooling,
            settings={cell.variant.labels: trial.differences for cell, trial in trials.items()},
            facts={
                one.variant.labels: RowFacts.of(one.variant, trials[one], asked[one.variant.labels]) for one in trials
            },
        )

    def settings_of(self, cell: Cell) -> Mapping[str, Any] | None:
        """What differs from the method's defaults in a cell's row; None if the plan does not say it."""
        return self.settings.get(cell.variant.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cells of a sweep and what its store contains.

    Attributes:
        name: name of the sweep.
        title: common title of its tables.
        parts: its tables.
        splits: by name.
        results: the results folder.
        store: absolute path of the store.
        part: the part of each split that is scored.
        warnings: what looks suspicious; empty in a plan that is read.
        seed_rule: how the results decide which seeds each row has; None: all rows have the same seeds.
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    splits: Mapping[str, SplitData]
    results: ResultsFolder
    store: str
    part: ScoredPart = "test"
    warnings: tuple[Problem, ...] = ()
    seed_rule: SeedRule | None = None

    @property
    def folder(self) -> Path:
        """The sweep's own directory: plan, tables, figures and page."""
        return self.results.sweep(self.name)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of all tables; a trial that several tables contain is the first table's cell."""
        cells: dict[str, Cell] = {}
        for part in self.parts:
            for cell in part.cells:
                cells.setdefault(cell.key, cell)
        return tuple(cells.values())

    @property
    def rows(self) -> dict[str, str]:
        """Trial identity -> name of its row."""
        return {cell.identity: cell.variant.name for cell in self.cells}

    @property
    def tracked(self) -> SweepCells:
        """What of the plan a tracking server shows."""
        evaluations: dict[str, list[str]] = {}
        labels: dict[str, dict[str, str]] = {}
        rule = () if self.seed_rule is None else (repr(self.seed_rule),)
        for part in self.parts:
            for row in part.experiment.variants:
                labels.setdefault(row.name, dict(zip(part.experiment.label_titles, row.labels, strict=True)))
        for cell in self.cells:
            evaluations.setdefault(cell.identity, []).append(cell.evaluation)
        return SweepCells(
            results=self.results,
            name=self.name,
            digest=digest("\n".join([self.title, *rule, *(f"{cell} {cell.key}" for cell in self.cells)])),
            rows=self.rows,
            labels=labels,
            evaluations=evaluations,
        )

    def read_results(
        self, earlier: Mapping[str, CellResult] | None = None, reading: Callable[[str], TrialReading] | None = None
    ) -> dict[str, CellResult]:
        """State and scores of each cell, by key, as its trial's directory has them now.

        Args:
            earlier: results of an earlier call; its finished cells are not read again.
            reading: returns the content of the directory of an identity; it is not asked for results that are kept.
        """
        results = {key: result for key, result in (earlier or {}).items() if result.is_finished}
        known = {} if results else read_known(self.folder)
        reading = reading or cache(self.results.reading)
        for cell in self.cells:
            if cell.key not in results:
                stamp = stamp_of(self.results.trial(cell.identity), cell.evaluation)
                kept = known.get(cell.key)
                if kept is None or not stamp or kept.stamp != stamp:
                    kept = read_result(reading(cell.identity), cell.evaluation, stamp)
                results[cell.key] = kept
        return {cell.key: results[cell.key] for cell in self.cells}

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "title": self.title,
            "tables": [_part_to_dict(part) for part in self.parts],
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "store": self.store,
            "part": self.part,
            "seed_rule": self.seed_rule and asdict(self.seed_rule),
        }

    def write(self) -> None:
        """Writes plan.json, from which `read_plan` restores the plan without store or experiment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / FILE, self.to_dict())


def _part_to_dict(part: Part) -> dict[str, Any]:
    shape = part.experiment
    places = {row.labels: place for place, row in enumerate(shape.variants)}
    return {
        "name": shape.name,
        "title": shape.title,
        "label_titles": shape.label_titles,
        "default_row": shape.default_row,
        "pooling": part.pooling,
        "figure": None if shape.figure is None else asdict(shape.figure),
        "columns": [asdict(column) for column in shape.columns],
        "rows": [{**asdict(row), "settings": dict(row.settings)} for row in shape.variants],
        "settings": [dict(part.settings[row.labels]) for row in shape.variants] if part.settings else [],
        "quoted": [row.to_dict() for row in shape.quoted],
        "facts": [asdict(part.facts[row.labels]) for row in shape.variants] if part.facts else [],
        "cells": [
            [places[cell.variant.labels], cell.split, cell.seed, cell.identity, cell.evaluation] for cell in part.cells
        ],
    }


def _part_from_dict(value: Mapping[str, Any]) -> Part:
    rows = tuple(Variant(**{**row, "labels": tuple(row["labels"])}) for row in value["rows"])
    figure = value.get("figure")
    experiment = Experiment(
        name=value["name"],
        title=value["title"],
        label_titles=tuple(value["label_titles"]),
        variants=rows,
        columns=tuple(Column(**column) for column in value["columns"]),
        default_row=value.get("default_row"),
        quoted=tuple(Quoted.from_dict(row) for row in value.get("quoted", ())),
        figure=figure and Figure(**{**figure, "recordings": tuple(figure["recordings"])}),
    )
    cells = tuple(
        Cell(variant=rows[row], split=split, seed=seed, identity=identity, evaluation=evaluation)
        for row, split, seed, identity, evaluation in value["cells"]
    )
    for identity in {part for cell in cells for part in (cell.identity, cell.evaluation)}:
        if not is_identity(identity):
            raise ValueError(f"no identity of a trial: {identity!r}")
    settings, facts = list(value.get("settings", ())), list(value.get("facts", ()))
    for name, given in {"settings": settings, "facts": facts}.items():
        if misfit(given, [{}]) or len(given) not in (0, len(rows)):
            raise ValueError(f"{name}: expected one mapping per row")
    return Part(
        experiment=experiment,
        cells=cells,
        pooling=value.get("pooling"),
        settings={row.labels: chosen for row, chosen in zip(rows, settings, strict=False)},
        facts={row.labels: RowFacts.from_dict(one) for row, one in zip(rows, facts, strict=False)},
    )


def _rule_from_dict(value: Any) -> SeedRule | None:
    if value is None:
        return None
    if wrong := misfit(value, {"least": int, "most": int, "until": NUMBER}):
        raise ValueError(f"seed_rule: {wrong}")
    return SeedRule(**value)


def make_plan(
    experiment: Experiment | Collection,
    *,
    store: StorePlace,
    base: Callable[[Experiment, str], Config],
    settings: Mapping[str, object],
    seeds: Sequence[int],
    splits: Sequence[str],
    results: ResultsFolder,
    device: str = "cpu",
    part: ScoredPart = "test",
) -> tuple[Plan, dict[str, Trial]]:
    """The plan of a sweep over a store, and each of its trials by key.

    Args:
        experiment: one table, or several.
        store: feature store with the recordings.
        base: returns the configuration on which the rows of a table and a method build.
        settings: settings of the command line, path -> value; they take precedence over the rows'.
        seeds: one trial of each row and split per seed.
        splits: names, or `all` alone.
        results: the results folder.
        device: `cpu`, `cuda` or `auto`, where trials compute; bfloat16 is planned as float32 where it is not usable.
        part: the part of each split that is scored; `validation` is left out of the training, and no annotation of the
            test part is read.

    Raises:
        InputError: wrong settings, or recordings without the annotations that training or scoring needs.
        StoreError: no such store or split, a damaged store, or a training part that is too small for a validation part.
    """
    opened = open_store(store)
    names = split_names(opened, part) if list(splits) == ["all"] else splits
    given = settings_by_method(experiment, settings)
    default, pooling = given(DEFAULT_METHOD), method_named(DEFAULT_METHOD).pooling
    bases = {table.name: base(table, DEFAULT_METHOD) for table in experiment.experiments}
    poolings = {name: pooling(config.with_values(default)) for name, config in bases.items()}
    facts = {name: split_facts(opened, name, part) for name in names}
    data = {name: split_data(opened, name, facts[name], set(poolings.values()), part=part) for name in names}
    fingerprint = fingerprints(facts)
    tables = [shape.with_default_row(bases[shape.name], default) for shape in experiment.experiments]
    asked = [
        expand(
            table,
            base=partial(base, table),
            settings=given,
            seeds=seeds,
            splits=tuple(names),
            fingerprint=fingerprint,
            n_training=lambda split: data[split].n_train,
            store=absolute(store),
            trained=lambda trial: results.trained_run(trial.identity),
            device=device,
            part=part,
        )
        for table in tables
    ]
    stored = as_stored(asked, results)
    rows = [row_configs(table, partial(base, table), given) for table in tables]
    check_rules(rows, opened.manifest.background, part)
    trials = linked({trial.key: trial for cells in stored for trial in cells.values()})
    plan = Plan(
        name=experiment.name,
        title=experiment.title,
        parts=tuple(map(Part.of, tables, stored, (poolings[table.name] for table in tables), rows)),
        splits=data,
        results=results,
        store=absolute(store),
        part=part,
        warnings=(
            *precision_problems((one for own in rows for _, one in own), device),
            *model_problems(trials.values()),
        ),
    )
    return replace(plan, warnings=(*plan.warnings, *_other_parts(plan), *also_tested(opened, data))), trials


def _other_parts(plan: Plan) -> Iterator[Problem]:
    """One problem per split of an earlier plan, of this sweep or this store, whose validation part has others."""
    for folder in plan.results.sweeps(FILE) if plan.part == "validation" else ():
        try:
            other = read_json(folder / FILE, versions=(FORMAT_VERSION,), hint=HINT, shape=SHAPE)
        except InputError:  # the command that reads the plan reports it
            continue
        for split, data in plan.splits.items() if other["store"] == plan.store or folder == plan.folder else ():
            earlier = other["splits"].get(split, {}).get("validation") or data.validation
            if differing := sorted({*earlier} ^ {*data.validation}):
                message = f"the validation part has other recordings than in sweep {folder.name}: {some(differing)}"
                hint = "do not compare their scores"
                yield Problem(rule="mismatch", place=f"split {split}", value=differing, message=message, hint=hint)


def read_plan(results: ResultsFolder, name: str) -> Plan:
    """The plan that the last run of a sweep wrote.

    Raises:
        InputError: no such plan, or one that is damaged or of another format version.
    """
    path = results.sweep(name) / FILE
    if any(name_problems("name", name)) or not path.exists():
        names = [folder.name for folder in results.sweeps(FILE)]
        raise InputError(
            Problem(
                rule="unknown",
                place=str(results.path),
                value=name,
                message=f"no sweep {name!r}{nearest(name, names)} has run here (sweeps: {some(names) or 'none'})",
                hint="run it, or name another --results folder",
            )
        )
    value = read_json(path, versions=(FORMAT_VERSION,), hint=HINT, shape=SHAPE)
    if value["name"] != name:
        raise damaged(path, f"plan of the sweep {value['name']!r}", HINT)
    return plan_of(value, results, path)


def plan_of(value: Mapping[str, Any], results: ResultsFolder, path: Path) -> Plan:
    """The inverse of `Plan.to_dict`.

    Args:
        value: plain values of the `SHAPE`.
        results: the results folder.
        path: file with the values, for errors.

    Raises:
        InputError: the values are damaged.
    """
    try:
        return Plan(
            name=value["name"],
            title=value["title"],
            parts=tuple(_part_from_dict(part) for part in value["tables"]),
            splits={name: SplitData.from_dict(split) for name, split in value["splits"].items()},
            results=results,
            store=value["store"],
            part=scored_part(value.get("part", "test")),
            seed_rule=_rule_from_dict(value.get("seed_rule")),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, str(error), HINT) from error

"""A sweep from its plan to its table: what is known, what is missing, and running that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mucon.config import TrainConfig
from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL, InputError
from storage import open_store
from sweeps.service import lease, tables
from sweeps.service.experiment import Cell, Column, Experiment, SweepInfo, Trial, Variant, expand
from sweeps.service.recordings import SplitData, absolute, split_data, split_names
from sweeps.service.tables import Known, Table
from sweeps.service.trial_folder import TO_RUN, State, TrialFolder, write_json

FORMAT_VERSION = 1
TRACKING_EXPERIMENT = "mucon"
"""One experiment of the tracking server for all sweeps, since sweeps share trials."""


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
    fingerprints = {name: split.fingerprint for name, split in looked_at.items()}
    trials = expand(
        experiment, base=base, settings=settings, seeds=seeds, fingerprints=fingerprints, store=absolute(store)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How a sweep is run.

    Attributes:
        device: `auto`, `cpu`, `cuda`.
        cpus: for each trial, a number or `auto`.
        gpus: for each trial, a number or `auto`.
        tracking_uri: of the tracking server.
        info: what that server is told of the sweep.
    """

    device: str
    cpus: str
    gpus: str
    tracking_uri: str
    info: SweepInfo


def run_plan(plan: Plan, trials: Mapping[str, Trial], how: Running, console: Console) -> int:
    """Runs what is missing of a plan, and shows and writes its table.

    Where nothing is missing, neither Ray nor MLflow is imported.

    Returns:
        The exit status: 0, 3 when cells have no value, 130 when it was interrupted.

    Raises:
        InputError: the same sweep is running, or a trial fits nowhere, or the tracking server is none.
    """
    known = plan.known()
    missing = [trials[key] for key, cell in known.items() if cell.state in TO_RUN]
    interrupted, unsent = False, False
    if missing:
        place = plan.results / "running" / plan.experiment.name
        held = lease.acquire(place)
        if held is None:
            raise InputError(
                f"a sweep runs once at a time, {plan.experiment.name} is being run by {lease.holder(place)} in "
                f"{plan.results}: wait for it, or name another --results folder"
            )
        with held:
            interrupted, unsent = _run(plan, missing, how, place, console)
        known = plan.known()
    table = plan.table(known)
    plan.write()
    plan.write_tables(table)
    show(table, console)
    if interrupted:
        return EXIT_INTERRUPTED
    whole = all(cell.state is State.FINISHED for cell in known.values())
    return EXIT_OK if whole and not unsent else EXIT_PARTIAL


def show(table: Table, console: Console) -> None:
    """Prints a table and its notes."""
    console.print(tables.for_terminal(table, console))
    for note in table.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def _run(plan: Plan, missing: Sequence[Trial], how: Running, place: Path, console: Console) -> tuple[bool, bool]:
    """Runs trials with tracking beside them; tells whether it was interrupted and whether something was not shipped."""
    import torch

    from sweeps.service import preflight
    from sweeps.service.progress import Progress

    n_gpus = 0 if how.device == "cpu" else torch.cuda.device_count()
    each = preflight.resources(how.cpus, how.gpus, n_gpus=n_gpus)
    if not preflight.is_cluster():
        each.slots({"this machine": (preflight.cpu_count(), n_gpus)})
    device = how.device if how.device != "auto" else "cuda" if each.gpus else "cpu"
    preflight.set_ray_environment()
    from sweeps.service.shipping import Shipping
    from sweeps.service.tracking import Tracker
    from sweeps.service.tracking_sweeps import write_sweep

    rows = {cell.identity: cell.variant.name for cell in plan.cells}
    tracker = Tracker(how.tracking_uri, TRACKING_EXPERIMENT, how.info, rows)
    plan.write()
    write_sweep(plan.results, how.info, TRACKING_EXPERIMENT, rows)
    console.print(
        f"{len(plan.cells)} trials, {len(missing)} to run, on {device}, {each}", markup=False, highlight=False
    )
    console.print(f"results {plan.results}, tracking {tracker.uri}", markup=False, highlight=False, soft_wrap=True)
    shipping = Shipping(tracker, [plan.results / "trials" / identity for identity in rows])
    try:
        from sweeps.service.engine import run_trials

        names = {cell.key: str(cell) for cell in plan.cells if cell.key in {trial.key for trial in missing}}
        with Progress(console, names) as progress:
            interrupted = run_trials(
                missing, results=plan.results, scratch=place, device=device, each=each, listener=progress
            )
        shipment = shipping.finish(plan.write_tables(plan.table(plan.known())))
    except BaseException:
        shipping.abandon()
        raise
    for line in shipment.lines(plan.results, tracker.uri):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if shipment.unreachable is None:
        console.print(f"tracked: {shipping.where}", markup=False, highlight=False, soft_wrap=True)
    return interrupted, bool(shipment.pending) or shipment.unreachable is not None

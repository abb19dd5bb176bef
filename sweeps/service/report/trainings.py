"""What a page tells of each training: its state, its curves, where it ran and where it is tracked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mucon.config import flatten
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import read_links
from sweeps.service.trials import journal
from sweeps.service.trials.cell_results import Known
from sweeps.service.trials.folder import State, TrialFolder

CURVES = ("loss.total", "progress.full.mof")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """A training.

    Attributes:
        identity: name of its folder.
        rows: names of the rows for which it stands, each with its table's name where the sweep has several tables.
        split: name of the split.
        seed: of the training.
        state: of the training.
        reason: for it, where it has one.
        epochs: finished ones.
        seconds: of the training; None where it has not ended.
        curves: metric -> (epoch, value), of those that were measured.
        config: path -> value, of the full configuration but for the seed; empty where nothing was started.
        environment: name -> value of the newest record; empty where nothing was started.
        link: of its run on the tracking server; None where that is not known.
    """

    identity: str
    rows: tuple[str, ...]
    split: str
    seed: int
    state: State
    reason: str | None
    epochs: int
    seconds: float | None
    curves: dict[str, tuple[tuple[int, float], ...]]
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    link: str | None


def read_trials(plan: Plan, known: Mapping[str, Known]) -> dict[str, TrialFacts]:
    """By identity, in the order of the plan; from the trials' folders.

    Args:
        plan: the sweep.
        known: of each cell, by key.
    """
    links = read_links(plan.folder)
    rows: dict[str, list[str]] = {}
    worst: dict[str, Known] = {}
    for part in plan.parts:
        for cell in part.cells:
            name = f"{part.experiment.name}: {cell.variant.name}" if len(plan.parts) > 1 else cell.variant.name
            names = rows.setdefault(cell.identity, [])
            names += [name] if name not in names else []
            if cell.identity not in worst or known[cell.key].scores is None:
                worst[cell.identity] = known[cell.key]
    found: dict[str, TrialFacts] = {}
    for cell in plan.cells:
        if cell.identity in found:
            continue
        folder = TrialFolder(plan.results / "trials" / cell.identity)
        records, _ = journal.read(folder.journal_path)
        epochs = [record for record in records if record["kind"] == "epoch"]
        there = worst[cell.identity]
        found[cell.identity] = TrialFacts(
            identity=cell.identity,
            rows=tuple(rows[cell.identity]),
            split=cell.split,
            seed=cell.seed,
            state=there.state,
            reason=there.reason,
            epochs=len(epochs),
            seconds=_training_seconds(known[cell.key]),
            curves={metric: curve for metric in CURVES if (curve := tuple(_curve(epochs, metric)))},
            config=_config(folder),
            environment=_environment(records),
            link=links.get(cell.identity),
        )
    return found


def _curve(epochs: list[journal.Record], metric: str) -> Iterator[tuple[int, float]]:
    for record in epochs:
        if metric in record["metrics"]:
            yield record["step"], record["metrics"][metric]


def _training_seconds(known: Known) -> float | None:
    return None if known.scores is None else next(iter(known.scores.values()), {}).get("training_seconds")


def _config(folder: TrialFolder) -> dict[str, Any]:
    if not (folder.path / "trial.json").exists():
        return {}
    return {path: value for path, value in flatten(folder.read_trial()["config"]).items() if path != "seed"}


def _environment(records: list[journal.Record]) -> dict[str, Any]:
    found = next((record for record in reversed(records) if record["kind"] == "environment"), {})
    left_out = ("kind", "timestamp")
    return {name: value for name, value in flatten(found).items() if name not in left_out}

"""Trains one finished trial again, by itself, and compares the bits."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mucon
from mucon.device import choose_device
from mucon.errors import InputError, Problem
from mucon.methods import method_named
from mucon.training import EpochReport
from storage import open_store
from storage.remote.addresses import StorePlace, absolute
from sweeps.service.plan.recordings import split_facts
from sweeps.service.run.worker import Outcome, run_trial
from sweeps.service.trials.differences import ENVIRONMENT_FACTS, changed
from sweeps.service.trials.folder import WHOLE_TRIAL_SHAPE, State, TrialFolder, read_versioned
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

MAX_EPOCH_LINES = 10
"""Number of epochs for which a line is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A trial and its repetition.

    Attributes:
        trial: what was trained.
        data_changed: the fingerprint of the recordings now, if it differs from the trial's; else None.
        outcome: how the repetition ended.
        weights: sha256 of the weights before and now; now is None if the repetition has not finished.
        scores: `PREDICTION.METRIC` -> (before, now) of each score that differs.
        n_scores: number of compared scores.
        environment: fact -> (before, now) of each recorded fact that differs.
    """

    trial: Trial
    data_changed: str | None
    outcome: Outcome
    weights: tuple[str, str | None]
    scores: Mapping[str, tuple[Any, Any]]
    n_scores: int
    environment: Mapping[str, tuple[Any, Any]]

    @property
    def is_same(self) -> bool:
        """Whether weights and scores have the same bits."""
        return self.weights[0] == self.weights[1] and not self.scores

    def lines(self) -> Iterator[str]:
        """The report for the terminal."""
        if self.outcome.state is not State.FINISHED:
            reason = f", {self.outcome.reason}" if self.outcome.reason else ""
            yield f"not reproduced: {self.outcome.state}{reason}"
            return
        if self.is_same:
            yield f"same bits: weights {self.weights[0]}{', and every score' if self.n_scores else ''}"
            return
        if self.weights[0] != self.weights[1]:
            yield f"the weights differ: sha256 {self.weights[0]} before, {self.weights[1]} now"
        for name, (before, now) in self.scores.items():
            yield f"{name} differs: {before} before, {now} now"
        yield "other differences:" if self.data_changed else "other differences (the recordings are the same):"
        for name, (before, now) in self.environment.items():
            yield f"  {name}: {before} before, {now} now"
        if not self.environment:
            yield "  no recorded fact differs"


def reproduce(
    run: str,
    results: ResultsFolder,
    *,
    store: StorePlace | None,
    device: str,
    say: Callable[[str], None],
) -> Reproduction:
    """Trains a trial again in a temporary directory, without Ray and MLflow, and compares the bits.

    Args:
        run: the trial's identity, or its directory.
        results: the results folder in which an identity is looked up.
        store: current place of the recordings; None: unchanged.
        device: `auto` takes the kind of device that the trial was trained on.
        say: prints a progress line.

    Raises:
        InputError: no such trial, one that has not finished, or no GPU for one that was trained on a GPU.
        StoreError: a problem of the store.
        KeyboardInterrupt: interrupted; nothing is kept.
    """
    before = finished_trial(results.find_trial(run))
    trial = Trial.from_dict(before.trial)
    precision = before.training_environment.get("precision", trial.training.precision)
    if precision != trial.training.precision:  # earlier versions recorded the requested one
        trial = replace(trial, config=trial.config.override("training.precision", precision))
    trial = trial if store is None else replace(trial, store=absolute(store))
    facts = split_facts(open_store(trial.store), trial.split, trial.part)
    fingerprint = facts.fingerprint(trial.training.labelled, trial.config.seed)
    data_changed = fingerprint if fingerprint != trial.data_fingerprint else None
    if data_changed:
        partly = 0 < trial.training.labelled < 1
        also = ", or an earlier version labelled others of them" if partly else ""
        say(
            f"the recordings have changed{also}: split {trial.split} of {trial.store} has the fingerprint "
            f"{fingerprint}, the trial was trained on {trial.data_fingerprint}; other bits are expected"
        )
        trial = replace(trial, data_fingerprint=fingerprint)
    where = before.training_environment.get("device", "auto") if device == "auto" else device
    if where.startswith("cuda"):
        choose_device(where)
    epochs = trial.training.last_epoch
    say(f"training {trial.identity} again: split {trial.split}, seed {trial.config.seed}, {epochs} epochs, on {where}")
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        again = ResultsFolder(Path(temporary))
        outcome = run_trial(trial, again, device=where, report=_epoch_lines(say))
        return _compared(trial, data_changed, outcome, before, again.reading(trial.identity))


def finished_trial(folder: TrialFolder) -> TrialReading:
    """The reading of a trial that has finished training and has a result.

    Raises:
        InputError: it has not finished, or its files are of another format.
    """
    reading = TrialReading(folder)
    reading.check()
    read_versioned(folder.trial_path, WHOLE_TRIAL_SHAPE)
    if reading.first_result is None:
        state, reason = reading.state()
        raise InputError(
            Problem(
                rule="state",
                place=str(folder.path),
                value=str(state),
                message=f"only a finished trial can be compared, this one is {state}{f' ({reason})' if reason else ''}",
                hint="run its sweep first",
            )
        )
    return reading


def _compared(
    trial: Trial, data_changed: str | None, outcome: Outcome, before: TrialReading, after: TrialReading
) -> Reproduction:
    """Compares weights, the scores of the same evaluation, and the environments."""
    training = (before.first_result or {})["weights_sha256"]
    old = _scores(before.result(trial.evaluation))
    new = _scores(after.result(trial.evaluation)) if old else {}
    finished = outcome.state is State.FINISHED
    return Reproduction(
        trial=trial,
        data_changed=data_changed,
        outcome=outcome,
        weights=(training, (after.first_result or {}).get("weights_sha256") if finished else None),
        scores=changed(old, new) if finished else {},
        n_scores=len(old),
        environment=dict(_environment_changes(before, after)) if finished else {},
    )


def _environment_changes(before: TrialReading, after: TrialReading) -> Iterator[tuple[str, tuple[Any, Any]]]:
    numerics = before.trial["numerics"]
    now = method_named(before.trial["method"]).numerics
    if numerics != now:
        yield "numerics", (numerics, f"{now} (the arithmetic was changed on purpose)")
    version = (before.first_result or {}).get("evaluation_version", 1)
    if version != mucon.EVALUATION:
        yield "evaluation version", (version, f"{mucon.EVALUATION} (decoding or metrics were changed on purpose)")
    old, new = before.training_environment, after.training_environment
    if not old:
        yield "environment", ("not recorded", "recorded")
        return
    names = [name for name in ENVIRONMENT_FACTS if name != "numerics" or numerics == now]
    yield from changed({n: old[n] for n in names if n in old}, {n: new[n] for n in names if n in new}).items()
    yield from sorted(changed(old.get("packages", {}), new.get("packages", {})).items())


def _epoch_lines(say: Callable[[str], None]) -> Callable[[EpochReport], None]:
    """Prints a line for some epochs."""

    def report(epoch: EpochReport) -> None:
        every = -(-epoch.epochs // MAX_EPOCH_LINES)
        if epoch.epoch % every == 0 or epoch.epoch == epoch.epochs:
            say(f"epoch {epoch.epoch}/{epoch.epochs} loss {epoch.losses['total']:.4f}")

    return report


def _scores(result: Mapping[str, Any] | None) -> dict[str, float | None]:
    return {
        f"{prediction}.{metric}": value
        for prediction, scores in (result or {"scores": {}})["scores"].items()
        for metric, value in scores.items()
    }

"""The identities under which a results folder contains the trials of a plan.

Earlier versions named trainings and evaluations by their settings as given, without precision. A training that exists
under such a name keeps it, and so do all trials that share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mucon.errors import InputError, Problem
from sweeps.service.plan.cells import Cell
from sweeps.service.trials.json_files import UNREADABLE
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial


def as_stored(tables: Iterable[Mapping[Cell, Trial]], results: ResultsFolder) -> list[dict[Cell, Trial]]:
    """The trials of some tables under the identities under which their trainings and evaluations exist.

    Raises:
        InputError: one problem per directory that contains a training in another precision, or that is damaged.
    """
    tables = list(tables)
    trials = [trial for table in tables for trial in table.values()]
    names: dict[str, dict[str, None]] = {}
    for trial in trials:
        names.setdefault(trial.identity, {trial.identity: None})[trial.earlier] = None
    found: dict[str, Trial] = {}
    problems: dict[str, Problem] = {}
    for trial in trials:
        try:
            found[trial.literal] = _found(trial, list(names[trial.identity]), results)
        except InputError as error:
            problems |= {problem.place: problem for problem in error.problems}
    if problems:
        raise InputError(list(problems.values()))
    return [{_renamed(cell, trial := found[asked.literal]): trial for cell, asked in table.items()} for table in tables]


def _renamed(cell: Cell, trial: Trial) -> Cell:
    return replace(cell, identity=trial.identity, evaluation=trial.evaluation)


def _found(trial: Trial, names: Iterable[str], results: ResultsFolder) -> Trial:
    """The trial under the name with the most finished parts; the canonical one, then its own, wins among equals."""
    readings = [results.reading(name) for name in dict.fromkeys((trial.identity, trial.earlier, *names)) if name]
    existing = [reading for reading in readings if reading.exists]
    if not existing:
        return trial
    fitting = [reading for reading in existing if _precision(reading) in (None, trial.training.precision)]
    if not fitting and existing[0].folder.identity == trial.identity:
        raise InputError(_other_precision(existing[0], trial))

    def evaluations(reading: TrialReading) -> list[str]:
        names = (trial.evaluation, trial.earlier_evaluation)
        return [name for name in names if reading.folder.result_path(name).exists()]

    best = max(fitting, key=lambda reading: (bool(evaluations(reading)), reading.is_trained), default=None)
    if best is None:
        return trial
    evaluation = next(iter(evaluations(best)), trial.evaluation)
    return replace(trial, identity=best.folder.identity, evaluation=evaluation)


def _precision(reading: TrialReading) -> str | None:
    """The precision in which a trial was trained; earlier versions planned bfloat16 and fell back to float32.

    None if a file of it is damaged: a run sets the file aside and makes it again.
    """
    try:
        training = reading.trial["config"].get("training")
        asked = str(training.get("precision", "float32")) if isinstance(training, dict) else "float32"
        return asked if asked == "float32" else str(reading.training_environment.get("precision", asked))
    except InputError as error:
        if any(problem.rule not in UNREADABLE for problem in error.problems):
            raise
        return None


def _other_precision(reading: TrialReading, trial: Trial) -> Problem:
    precision = _precision(reading)
    return Problem(
        rule="conflict",
        place=str(reading.folder.path),
        value=precision,
        message=f"an earlier version trained this in {precision}, not in {trial.training.precision}",
        hint=f"move the folder away, or use training.precision={precision}",
    )

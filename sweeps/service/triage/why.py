"""Why a cell has no result: its state, or how the wanted trial differs from the nearest recorded one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import mucon
from mucon.checkpoint_files import of_run, trained_on
from mucon.configuration import flatten
from mucon.errors import InputError, counted
from mucon.identity.fingerprint import DIGITS
from mucon.methods import method_named
from storage import open_store
from sweeps.service.plan.recordings import SplitFacts, split_facts
from sweeps.service.plan.sweep_folder import read_sweep
from sweeps.service.triage.failures import FAILURES, Failed, Failure
from sweeps.service.triage.naming import Named, Place, find
from sweeps.service.triage.status import WAITS_FOR_CORES, CellState
from sweeps.service.trials import lease
from sweeps.service.trials.cell_results import read_result
from sweeps.service.trials.differences import Recordings, changed_settings
from sweeps.service.trials.folder import State
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

WAITING = (State.MISSING, State.STOPPED, State.LOST)
"""States of trials that a running sweep takes up by itself."""
_WEIGHTS = {"method": 1000, "seed": 0.5, "split": 0.5, "part": 0.5}
"""How far a difference moves a recorded trial away; 1 for all others, so that another seed of the row is nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact in which the wanted trial and a recorded one differ.

    Attributes:
        what: path of a setting, or `method`, `split`, `part`, `seed`, `data`, `numerics`, `task`, `evaluation version`.
        wanted: value of the wanted trial.
        recorded: value of the recorded trial.
    """

    what: str
    wanted: Any
    recorded: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a trial has no result.

    Attributes:
        identity: of the training.
        evaluation: of the evaluation; None if no plan contains the trial.
        name: row, split and seed, or the identity.
        sweeps: sweeps whose plans contain it.
        state: its state.
        reason: the recorded reason; None without one.
        since: when the state was recorded, seconds since 1970; None if it was not.
        nearest: identity of the recorded trial that differs least; None if none was compared.
        differences: in what they differ.
        recordings: how the recordings differ; None if they are the same or unknown.
        notes: what else is known.
        advice: what to do.
    """

    identity: str
    evaluation: str | None
    name: str
    sweeps: tuple[str, ...]
    state: CellState
    reason: str | None
    since: float | None
    nearest: str | None = None
    differences: tuple[Difference, ...] = ()
    recordings: Recordings | None = None
    notes: tuple[str, ...] = ()
    advice: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the trial has a result."""
        return self.state is CellState.FINISHED

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """The explanation for the terminal."""
        sweeps = f"of {', '.join(self.sweeps)}" if self.sweeps else "of no sweep here"
        yield f"{self.identity}  {self.name} {sweeps}"
        since = "" if self.since is None else time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(self.since))
        yield f"{self.state}{since}{f': {self.reason}' if self.reason else ''}"
        if self.nearest == self.identity:
            yield "it is trained; the nearest recorded evaluation differs in"
        elif self.nearest is not None:
            yield f"nearest recorded trial: {self.nearest}, which differs in"
        for one in self.differences:
            yield f"  {one.what}: {one.wanted} wanted, {one.recorded} recorded"
        if self.recordings is not None:
            yield f"  recordings: {self.recordings}"
        yield from self.notes
        if self.advice:
            yield f"next: {self.advice}"


def explain(results: ResultsFolder, text: str, sweep: str | None = None) -> Explanation:
    """Why the trial that a text names has no result, see `find`.

    Raises:
        InputError: no trial or several trials have that name, or there is no such sweep.
    """
    named = find(results, text, sweep)
    reading = named.reading
    if not named.places:
        return _of_state(named, None, _state(reading, None))
    states = [(place, *_state(reading, place.cell.evaluation)) for place in named.places]
    place, state, reason = next((one for one in states if one[1] is not State.FINISHED), states[0])
    explanation = _of_state(named, place, (state, reason))
    if state is not State.MISSING:
        return explanation
    compared = _evaluations(place, reading) if reading.is_trained else _compared(results, place)
    return replace(explanation, **compared)


def _state(reading: TrialReading, evaluation: str | None) -> tuple[State, str | None]:
    if evaluation is None:
        try:
            _ = reading.results
        except InputError as error:
            return State.DAMAGED, reading.damage or error.line
        return (State.DAMAGED, reading.damage) if reading.damage else reading.state()
    result = read_result(reading, evaluation)
    return result.state, result.reason


def _of_state(named: Named, place: Place | None, found: tuple[State, str | None]) -> Explanation:
    """The explanation of a trial's state, without a comparison."""
    (state, reason), reading = found, named.reading
    last = None if reading.damage else reading.last_status
    holder = lease.holder(reading.folder.path) if state is State.RUNNING else None
    is_waiting = holder is not None and not reading.has_begun(holder)
    if state is State.RUNNING:
        reason = f"{WAITS_FOR_CORES}, {holder}" if is_waiting else f"{holder}"
    runner = _runner(named) if state in WAITING else ""
    return Explanation(
        identity=named.identity,
        evaluation=None if place is None else place.cell.evaluation,
        name=named.title if place is None else str(place.cell),
        sweeps=tuple(dict.fromkeys(place.sweep for place in named.places)),
        state=CellState.PENDING if is_waiting or (runner and state is State.MISSING) else CellState(state),
        reason=reason,
        since=None if last is None or is_waiting else last["timestamp"] / 1000,
        advice=runner or _advice(named, state, reason),
    )


def _advice(named: Named, state: State, reason: str | None) -> str:
    results = ResultsFolder(named.reading.folder.path.parent.parent)
    again, trial = _command(named, results), results.argument(named.identity)
    failure = None if state not in FAILURES else Failure.recorded(named.reading.last_status)
    failed = Failed(identity=named.identity, name="", state=state, reason=reason, failure=failure)
    hint = f"{failed.cause[1]}; " if state in FAILURES and failed.cause[1] else ""
    texts = {
        State.MISSING: f"run {again}",
        State.RUNNING: f"wait; `mucon-sweeps logs {trial} --follow` shows its epochs",
        State.FAILED: f"{hint}`mucon-sweeps debug {trial}` repeats it here",
        State.DIVERGED: f"{hint}`mucon-sweeps debug {trial}` repeats it here",
        State.DAMAGED: f"{again} renames the file and makes it again",
    }
    return texts.get(state, "" if state is State.FINISHED else f"{again} resumes it from its checkpoint")


def _runner(named: Named) -> str:
    """Who runs a sweep that contains the trial; empty if nobody does."""
    results = ResultsFolder(named.reading.folder.path.parent.parent)
    runners = {place.sweep: lease.holder(results.running(place.sweep)) for place in named.places}
    return next((f"wait; {holder} runs {sweep}" for sweep, holder in runners.items() if holder is not None), "")


def _command(named: Named, results: ResultsFolder) -> str:
    """The command of the first sweep that contains the trial, and its directory if that is another one."""
    try:
        record = read_sweep(results.sweep(named.places[0].sweep)) if named.places else None
    except InputError:
        record = None
    rerun = None if record is None else record.sweep.rerun
    if rerun is not None:
        here = rerun.with_options({"--results": str(results.path)}, ["--notify"])
        return f"`{here.command}`" + ("" if rerun.folder == str(Path.cwd()) else f" in {rerun.folder}")
    return "its sweep" if record is None or not record.sweep.command else f"`{record.sweep.command}`"


def _compared(results: ResultsFolder, place: Place) -> dict[str, Any]:
    """How a trial that has not started differs from the recorded trial that is nearest to it."""
    facts, problem = _facts(place)
    notes = [problem] if problem else []
    wanted = None
    try:
        wanted = _wanted(place, facts)
    except InputError as error:
        notes.append(f"this version of the program cannot plan it: {error.line}")
    if wanted is not None and facts is not None and not wanted.training.labelled:
        if wanted.data_fingerprint != place.fingerprint:
            notes.append("the store has changed since the sweep was planned; the same command plans it again")
        elif place.cell.identity not in (wanted.identity, wanted.earlier):
            notes.append("the program has changed since the sweep was planned; the same command plans it again")
    earlier = _earlier(results, place)
    candidates = []
    for folder in results.trials():
        if folder.identity != place.cell.identity:
            try:
                recorded = TrialReading(folder).trial
                found = _differences(place, wanted, recorded)
            except (InputError, KeyError, TypeError):  # damaged, or of an unknown method
                continue
            distance = sum(_WEIGHTS.get(one.what, 1) for one in found)
            candidates.append((folder.identity not in earlier, distance, folder.identity, found))
    if not candidates:
        return {"notes": (*notes, "no other trial is recorded in this results folder")}
    *_, identity, found = min(candidates, key=lambda one: one[:3])
    differ = any(one.what == "data" for one in found)
    changes = _recordings(facts, results.reading(identity)) if facts is not None and differ else None
    is_stale = identity in earlier and not {"seed", "split", "part"} & {one.what for one in found}
    return {
        **({"state": CellState.STALE} if is_stale else {}),
        "nearest": identity,
        "differences": tuple(found),
        "recordings": changes,
        "notes": tuple(notes),
    }


def _facts(place: Place) -> tuple[SplitFacts | None, str]:
    """The present facts of the cell's split, or why they cannot be read."""
    try:
        return split_facts(open_store(place.store), place.cell.split, place.part), ""
    except InputError as error:
        return None, f"the recordings cannot be read: {error.line}"


def _wanted(place: Place, facts: SplitFacts | None) -> Trial | None:
    """The wanted trial on the present recordings; None if the plan is of an earlier version.

    Raises:
        InputError: this version of the program has no such method or setting, or a model to start from is missing.
    """
    labelled = float((place.settings or {}).get("training.labelled", 0.0))
    return place.trial(place.fingerprint if facts is None else facts.fingerprint(labelled, place.cell.seed))


def _earlier(results: ResultsFolder, place: Place) -> set[str]:
    """Identities of recorded trials that earlier plans of the sweep had at the same row."""
    try:
        record = read_sweep(results.sweep(place.sweep))
    except InputError:
        record = None
    rows = {} if record is None else record.rows
    return {identity for identity, row in rows.items() if row == place.cell.variant.name}


def _differences(place: Place, wanted: Trial | None, recorded: Mapping[str, Any]) -> list[Difference]:
    """In what a wanted trial differs from a recorded one; of an older plan, only its row's own settings are known.

    Raises:
        InputError, KeyError, TypeError: the recorded trial is of an unknown method, or damaged.
    """
    cell = place.cell
    method = recorded.get("method", "mucon")
    facts = {
        "method": (cell.variant.method, method),
        "split": (cell.split, str(recorded["split"])),
        "part": (place.part, recorded["part"]),
        "seed": (cell.seed, recorded["seed"]),
    }
    if wanted is not None:
        facts["numerics"] = (method_named(wanted.method).numerics, recorded["numerics"])
        if (cell.split, place.part) == (str(recorded["split"]), recorded["part"]):
            facts["data"] = (wanted.data_fingerprint, recorded["data_fingerprint"])
    found = [Difference(what=what, wanted=a, recorded=b) for what, (a, b) in facts.items() if a != b]
    if cell.variant.method != method:
        return found
    if wanted is None:
        present = flatten(recorded["config"])
        pairs = {path: (value, present.get(path)) for path, value in cell.variant.settings.items()}
    else:
        configs = (wanted.config.to_dict(), recorded["config"])
        pairs = changed_settings([(method, config) for config in configs])
    return [*found, *(Difference(what=path, wanted=a, recorded=b) for path, (a, b) in pairs.items() if a != b)]


def _recordings(facts: SplitFacts, recorded: TrialReading) -> Recordings | None:
    """How the recordings differ now from those of a recorded trial; None if it has no list of them."""
    record, result = None, None
    with contextlib.suppress(InputError):  # removed or damaged
        record = trained_on(of_run(recorded.folder.run_path))
    with contextlib.suppress(InputError):
        result = recorded.first_result
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if record is not None:
        pairs.append(({one.id: one.sha256[:DIGITS] or None for one in facts.train}, dict(record.recordings)))
    if result is not None:
        scored = {row["id"]: row.get("n_frames") for row in result["per_video"]}
        pairs.append(({one.id: one.n_frames for one in facts.test}, scored))
    return Recordings.between(pairs) if pairs else None


def _evaluations(place: Place, reading: TrialReading) -> dict[str, Any]:
    """How the missing evaluation of a trained trial differs from the nearest recorded one."""
    if not reading.results:
        return {"notes": (f"it is trained ({counted(reading.n_epochs, 'epoch')}); only its evaluation is missing",)}
    settings = place.settings if place.settings is not None else place.cell.variant.settings
    wanted = {path: value for path, value in settings.items() if path.startswith("decoding.")}
    wanted |= {"task": place.cell.variant.task, "evaluation version": mucon.EVALUATION}

    def differences(result: Mapping[str, Any]) -> list[Difference]:
        recorded = {**result.get("choices", {}), "task": result.get("task", "segmentation")}
        recorded["evaluation version"] = result.get("evaluation_version", 1)
        return [
            Difference(what=what, wanted=wanted.get(what, "default"), recorded=recorded.get(what, "default"))
            for what in dict.fromkeys((*wanted, *recorded))
            if wanted.get(what) != recorded.get(what)
        ]

    found = min((differences(result) for result in reading.results.values()), key=len)
    return {"nearest": reading.folder.identity, "differences": tuple(found)}

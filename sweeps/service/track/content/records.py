"""The record of a trial for the tracking server, made from the trial's directory alone, within the server's limits."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.config import flatten
from mucon.metrics.catalogue import WITHOUT
from storage.remote.addresses import name_of
from sweeps.service.text import param_text
from sweeps.service.track.content.names import curve_name, safe_names, score_name
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.journal import Record
from sweeps.service.trials.json_files import leaves
from sweeps.service.trials.reading import TrialReading, values_of

MAX_TAG_CHARACTERS = 5000
MAX_DIGEST_CHARACTERS = 36

STATUS = {
    State.RUNNING: "RUNNING",
    State.LOST: "KILLED",
    State.FINISHED: "FINISHED",
    State.FAILED: "FAILED",
    State.STOPPED: "KILLED",
    State.DIVERGED: "FAILED",
}
"""MLflow's status for each state; the tag `state` has the exact one. A missing trial has no run."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric; the server identifies it by run, name, timestamp and step.

    Attributes:
        name: name that every server accepts.
        value: finite value.
        timestamp: milliseconds since 1970, from the journal.
        step: epoch, from 1; 0 for final values.
    """

    name: str
    value: float
    timestamp: int
    step: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A run of any program.

    Attributes:
        run_id: of the run.
        status: MLflow's status.
        facts: name -> text of its tags and parameters.
        metrics: name -> last value.
    """

    run_id: str
    status: str
    facts: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The recordings of a trial, which the server lists under a run's inputs.

    Attributes:
        name: name of the store, with the split.
        digest: the first 36 digits of the data fingerprint (the server's limit).
        source: JSON with the path of the store.
        schema: JSON with dimension and dtype of the features, as a tensor and as a column, because the server's pages
            show columns only; empty for older trials, which did not record them.
        profile: JSON with the whole fingerprint, the split and the evaluated part.
    """

    name: str
    digest: str
    source: str
    schema: str
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """The expected content of a trial's run; depends on the trial's directory only.

    Attributes:
        identity: identity of the trial.
        split: name of the split.
        seed: random seed.
        state: state of the trial.
        params: flat configuration, method, split, seed, numerics and data, as text.
        tags: data set, split, scored part, seed, environment, state, reason and the sha256 of the weights, as text.
        curves: values of each epoch in the order of steps.
        scores: values of the first evaluation; empty while there is none.
        evaluations: identity -> values of each later evaluation.
        last_step: the newest epoch; 0 before the first.
        started: milliseconds since 1970.
        ended: milliseconds since 1970 of the newest record; None while the trial runs.
        config: the full configuration.
        data: the recordings.
    """

    identity: str
    split: str
    seed: int
    state: State
    params: Mapping[str, str]
    tags: Mapping[str, str]
    curves: tuple[Point, ...]
    scores: tuple[Point, ...]
    evaluations: Mapping[str, tuple[Point, ...]]
    last_step: int
    started: int
    ended: int | None
    config: Mapping[str, Any]
    data: DataSet


def read_record(reading: TrialReading) -> TrialRecord | None:
    """The record of a trial; None if the trial has not started.

    Raises:
        InputError: the directory is of another format version or damaged.
    """
    reading.check()
    if not reading.exists:
        return None
    trial = reading.trial
    state, reason = _state(reading)
    if state is State.MISSING:
        return None
    results = reading.results if state is State.FINISHED else {}
    result = reading.first_result if results else None
    curves = tuple(_curves(reading.epochs))
    times = [r["timestamp"] for r in reading.records if "timestamp" in r] or [milliseconds_of(trial["created"])]
    scored = reading.epochs[-1]["timestamp"] if reading.epochs else times[0]
    return TrialRecord(
        identity=trial["identity"],
        split=str(trial["split"]),
        seed=int(trial["seed"]),
        state=state,
        params=_params(trial),
        tags=_tags(trial, state, reason, reading.environment, result),
        curves=curves,
        scores=tuple(_scores(result, scored, str(trial["part"]))) if result else (),
        evaluations={
            name: tuple(_scores(other, scored, str(trial["part"]), _title(other)))
            for name, other in results.items()
            if other is not result
        },
        last_step=reading.n_epochs,
        started=times[0],
        ended=None if state is State.RUNNING else times[-1],
        config=trial["config"],
        data=_data_set(trial),
    )


def milliseconds_of(iso: str) -> int:
    """Milliseconds since 1970 of an ISO time.

    >>> milliseconds_of("1970-01-01T00:00:02+00:00")
    2000
    """
    return int(datetime.datetime.fromisoformat(iso).timestamp() * 1000)


def _state(reading: TrialReading) -> tuple[State, str | None]:
    """The trial's state; with a result it is finished once the journal records it or no process holds the trial."""
    state, reason = reading.state()
    if state is not State.FINISHED:
        return state, reason
    last = reading.last_status
    recorded = last is not None and last["status"] == State.FINISHED
    return (State.FINISHED if recorded or lease.holder(reading.folder.path) is None else State.RUNNING), None


def _curves(epochs: Iterable[Record]) -> Iterator[Point]:
    """The finite values of each epoch; `not_finite` counts the others."""
    for epoch in epochs:
        time, metrics, step = int(epoch["timestamp"]), epoch["metrics"], int(epoch["step"])
        names = safe_names(map(curve_name, metrics))
        finite = {name: float(value) for name, value in metrics.items() if value is not None and math.isfinite(value)}
        yield from (Point(names[curve_name(name)], value, time, step) for name, value in finite.items())
        if len(finite) < len(metrics):
            yield Point(curve_name("not_finite"), float(len(metrics) - len(finite)), time, step)


def _scores(result: Mapping[str, Any], time: int, part: str, evaluation: str = "") -> Iterator[Point]:
    """Scores such as `final_test/full/mof`, the number of videos for which a score is undefined, and durations.

    All are at step 0: MLflow's pages draw bars for metrics with this step only, and lines for others. Scores without
    background are left out if all are equal to those with it, as in a store without background.

    Args:
        result: result of an evaluation.
        time: milliseconds since 1970.
        part: part of the split that was evaluated.
        evaluation: settings of a later evaluation; empty for the first.
    """
    values: dict[str, float | None] = {}
    group = f"final_{part}"
    for prediction, scores in _distinct_scores(values_of(result)).items():
        values |= {score_name(group, evaluation, prediction, metric): value for metric, value in scores.items()}
        counts = result.get("undefined", {}).get(prediction, {})
        values |= {
            score_name(group, evaluation, "undefined", f"{prediction}.{metric}"): count
            for metric, count in counts.items()
            if count and metric in scores
        }
    durations = ("evaluate_seconds",) if evaluation else ("train_seconds", "evaluate_seconds")
    values |= {score_name("time", evaluation, "", name): result.get(name) for name in durations}
    names = safe_names(values)
    for name, value in values.items():
        if value is not None and math.isfinite(value):
            yield Point(names[name], float(value), time, 0)


def _distinct_scores(scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The scores of each prediction, without those that repeat the ones with background.

    >>> _distinct_scores({"full": {"mof": 0.5, "mof_without_background": 0.5}})
    {'full': {'mof': 0.5}}
    """
    pairs = [
        (value, of_one.get(name.replace(WITHOUT, "")))
        for of_one in scores.values()
        for name, value in of_one.items()
        if WITHOUT in name
    ]
    repeated = all(value == other for value, other in pairs)
    return {
        prediction: {name: value for name, value in of_one.items() if not (repeated and WITHOUT in name)}
        for prediction, of_one in scores.items()
    }


def _title(result: Mapping[str, Any]) -> str:
    """The settings in which an evaluation differs from the default one.

    >>> _title({"evaluation": "ab", "task": "segmentation", "choices": {"decoding.beam": 10}})
    'beam 10'
    >>> _title({"evaluation": "ab", "task": "alignment", "choices": {"decoding.max_length": 90}})
    'alignment and max_length 90'
    >>> _title({"evaluation": "ab", "task": "segmentation", "choices": {}}), _title({"evaluation": "ab"})
    ('default', 'evaluation ab')
    """
    if "choices" not in result:  # not recorded by older programs
        return f"evaluation {result['evaluation']}"
    words = ["alignment"] if result["task"] == "alignment" else []
    words += [f"{path.removeprefix('decoding.')} {param_text(value)}" for path, value in result["choices"].items()]
    version = result.get("evaluation_version", 1)
    words += [f"version {version}"] if version > 1 else []
    return " and ".join(words) or "default"


def _params(trial: Mapping[str, Any]) -> dict[str, str]:
    facts = {"method": trial["method"], "split": trial["split"], "seed": trial["seed"], "numerics": trial["numerics"]}
    flat = flatten(trial["config"]) | facts | {"data": name_of(trial["store"])}
    names = safe_names(flat)
    return {names[path]: param_text(value) for path, value in flat.items()}


def label_params(labels: Mapping[str, str], params: Mapping[str, str]) -> dict[str, str]:
    """The labels of a row as parameters, by the titles of their columns; the server sorts names, capitals first.

    A title that is the name of another parameter is left out, in any case of its letters: some databases ignore case.

    >>> label_params({"Shape": "box", "Overlap": "10 %", "Method": "ours", "-": ""}, {"method": "mucon"})
    {'Shape': 'box', 'Overlap': '10 %'}
    """
    names = safe_names(labels)
    taken = Counter(name.lower() for name in (*params, *names.values()))
    shown = {title: label for title, label in labels.items() if label and taken[names[title].lower()] == 1}
    return {names[title]: param_text(label) for title, label in shown.items()}


def _tags(
    trial: Mapping[str, Any],
    state: State,
    reason: str | None,
    environment: Mapping[str, Any],
    result: Mapping[str, Any] | None,
) -> dict[str, str]:
    """Tags of a run; an empty reason replaces that of an earlier attempt."""
    facts: dict[str, Any] = {"data_set": name_of(trial["store"]), "split": str(trial["split"])}
    facts["part"] = str(trial["part"])
    facts |= {"seed": str(trial["seed"]), "state": str(state), "reason": reason or ""}
    for name, value in environment.items():
        facts[f"environment.{name}"] = ", ".join(f"{k} {v}" for k, v in value.items()) if name == "packages" else value
    if "git_commit" in environment:
        facts["mlflow.source.git.commit"] = environment["git_commit"]
    if result is not None:
        facts["weights_sha256"] = result["weights_sha256"]
    names = safe_names(facts)
    return {names[k]: (v if isinstance(v, str) else json.dumps(v))[:MAX_TAG_CHARACTERS] for k, v in facts.items()}


def _data_set(trial: Mapping[str, Any]) -> DataSet:
    facts = dict(trial.get("data", {}))
    schema = ""
    if "dim" in facts and "dtype" in facts:
        tensor = {"type": "tensor", "tensor-spec": {"dtype": facts["dtype"], "shape": [-1, facts["dim"]]}}
        column = {"name": f"features [frames, {facts['dim']}]", "type": facts["dtype"]}
        tensors = {"features": json.dumps([tensor]), "targets": None}
        schema = json.dumps({"mlflow_colspec": [column], "mlflow_tensorspec": tensors})
    fingerprint = str(trial["data_fingerprint"])
    return DataSet(
        name=f"{name_of(trial['store'])}, split {trial['split']}",
        digest=fingerprint[:MAX_DIGEST_CHARACTERS],
        source=json.dumps({"uri": trial["store"]}),
        schema=schema,
        profile=json.dumps({"fingerprint": fingerprint, "split": trial["split"], "part": trial["part"], **facts}),
    )


def artifacts(reading: TrialReading) -> list[tuple[Path, str]]:
    """Artifacts of a finished trial besides config.json: (file or directory, directory in the run).

    What leads out of the trial's directory by a symbolic link is left out: a server would show it to others.
    """
    folder, first = reading.folder, (reading.first_result or {})["evaluation"]
    files = [
        (folder.checkpoint_path, "checkpoint"),
        (folder.predictions_path(first), "predictions"),
        (folder.result_path(first), ""),
        (folder.training_path, ""),
        (folder.patch_path, ""),
    ]
    return [(path, directory) for path, directory in files if path.exists() and not leaves(path, folder.path)]

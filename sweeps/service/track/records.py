"""What the tracking server is told of a trial, made from the trial's folder alone; knows nothing of MLflow."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from mucon.config import flatten
from sweeps.service.text import param_text
from sweeps.service.track.names import safe_names
from sweeps.service.trials import journal, lease
from sweeps.service.trials.folder import State, TrialFolder

MAX_TAG = 5000
MAX_DIGEST = 36

_SPENT = ("train_seconds", "evaluate_seconds")
STATUS = {
    State.RUNNING: "RUNNING",
    State.LOST: "KILLED",
    State.FINISHED: "FINISHED",
    State.FAILED: "FAILED",
    State.STOPPED: "KILLED",
    State.DIVERGED: "FAILED",
}
"""The server's word for each state; the exact one is the tag `state`. A missing trial has no run."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric; together with the run its three facts are the server's key.

    Attributes:
        name: of the metric, already made safe.
        value: finite.
        timestamp: milliseconds since 1970, of the journal's record.
        step: epoch, from 1.
    """

    name: str
    value: float
    timestamp: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The recordings of a trial, as the server lists them under a run's inputs.

    Attributes:
        name: of the store, with the split.
        digest: the first 36 digits of our fingerprint (the server's limit).
        source: where the store is.
        schema: JSON, empty where dimension and dtype are not known.
        profile: JSON: the whole fingerprint, the split, the part that is evaluated.
    """

    name: str
    digest: str
    source: str
    schema: str
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A trial as the server shall show it. Made twice from the same folder it is the same.

    Attributes:
        identity: of the trial.
        split: name of the split.
        seed: of the trial.
        state: what has become of it.
        params: flat configuration and what else makes the trial, as text.
        tags: environment, state, reason and the sha256 of the weights, as text.
        curves: values of each epoch in the order of steps.
        scores: final values, empty until the result is there.
        evaluations: identity -> final values of each evaluation that was made of it later.
        last_step: the newest epoch, 0 before the first.
        started: milliseconds since 1970.
        ended: milliseconds since 1970 of the newest record, None while it runs.
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


def read_record(folder: TrialFolder) -> TrialRecord | None:
    """The record of a trial's folder, or None where the trial has not begun.

    Raises:
        InputError: the folder is of another format version or damaged.
    """
    if not (folder.path / "trial.json").exists():
        return None
    trial = folder.read_trial()
    lines, _ = journal.read(folder.journal_path)
    state, reason = _state(folder, trial["evaluation"], lines)
    if state is State.MISSING:
        return None
    result = json.loads((folder.path / "result.json").read_text()) if state is State.FINISHED else None
    curves = tuple(_curves(lines))
    last_step = max((point.step for point in curves), default=0)
    times = [line["timestamp"] for line in lines if "timestamp" in line] or [milliseconds_of(trial["created"])]
    epochs = [line["timestamp"] for line in lines if line["kind"] == "epoch"]
    at = epochs[-1] if epochs else times[0]
    others = folder.other_results() if result else {}
    environment = next((line for line in reversed(lines) if line["kind"] == "environment"), {})
    return TrialRecord(
        identity=trial["identity"],
        split=str(trial["split"]),
        seed=int(trial["seed"]),
        state=state,
        params=_params(trial),
        tags=_tags(state, reason, environment, result),
        curves=curves,
        scores=tuple(_scores(result, at)) if result else (),
        evaluations={name: tuple(_scores(other, at, f"{_way(other)}/")) for name, other in others.items()},
        last_step=last_step,
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


def _state(folder: TrialFolder, evaluation: str, lines: list[journal.Record]) -> tuple[State, str | None]:
    """The folder's state; a trial whose result stands is finished when its last word in the journal says so too."""
    if not folder.trained():
        return folder.state(evaluation)
    last = journal.last_status(lines)
    said = last is not None and last["status"] == State.FINISHED
    return (State.FINISHED if said or lease.holder(folder.path) is None else State.RUNNING), None


def _curves(lines: Iterable[journal.Record]) -> Iterable[Point]:
    """An epoch's first record counts. What is not finite is no value: it is left out and counted as `not_finite`."""
    epochs: dict[int, journal.Record] = {}
    for line in lines:
        if line["kind"] == "epoch":
            epochs.setdefault(int(line["step"]), line)
    for step in sorted(epochs):
        time, metrics = int(epochs[step]["timestamp"]), epochs[step]["metrics"]
        names = safe_names(metrics)
        finite = {name: float(value) for name, value in metrics.items() if value is not None and math.isfinite(value)}
        yield from (Point(names[name], value, time, step) for name, value in finite.items())
        if len(finite) < len(metrics):
            yield Point("not_finite", float(len(metrics) - len(finite)), time, step)


def _scores(result: Mapping[str, Any], time: int, before: str = "") -> Iterable[Point]:
    """`full.mof` and so on at the last epoch's time, with the number of videos for which a score is undefined.

    At step 0, where MLflow keeps what is no curve: its pages draw bars of such metrics and lines of others.

    Args:
        result: of an evaluation.
        time: milliseconds since 1970.
        before: what stands before each name; the server's pages make a group of what ends with a slash.
    """
    values: dict[str, float | None] = {}
    for prediction, scores in result["scores"].items():
        values.update({f"{prediction}.{metric}": value for metric, value in scores.items()})
    values.update({f"{prediction}.inference_seconds": value for prediction, value in result.get("seconds", {}).items()})
    for prediction, counts in result.get("undefined", {}).items():
        values.update({f"{prediction}.{metric}.undefined": count for metric, count in counts.items() if count})
    values.update({name: result.get(name) for name in (("evaluate_seconds",) if before else _SPENT)})
    values = {f"{before}{name}": value for name, value in values.items()}
    names = safe_names(values)
    for name, value in values.items():
        if value is not None and math.isfinite(value):
            yield Point(names[name], float(value), time, 0)


def _way(result: Mapping[str, Any]) -> str:
    """How an evaluation differs from the default one.

    >>> _way({"evaluation": "ab", "task": "segmentation", "choices": {"decoding.beam": 10}})
    'beam 10'
    >>> _way({"evaluation": "ab", "task": "alignment", "choices": {"decoding.max_length": 90}})
    'alignment and max_length 90'
    >>> _way({"evaluation": "ab", "task": "segmentation", "choices": {}}), _way({"evaluation": "ab"})
    ('default', 'evaluation ab')
    """
    if "choices" not in result:  # of before it was written down
        return f"evaluation {result['evaluation']}"
    words = ["alignment"] if result["task"] == "alignment" else []
    words += [f"{path.removeprefix('decoding.')} {param_text(value)}" for path, value in result["choices"].items()]
    return " and ".join(words) or "default"


def _params(trial: Mapping[str, Any]) -> dict[str, str]:
    facts = {"method": trial["method"], "split": trial["split"], "seed": trial["seed"], "numerics": trial["numerics"]}
    flat = flatten(trial["config"]) | facts | {"data": PurePath(trial["store"]).name}
    names = safe_names(flat)
    return {names[path]: param_text(value) for path, value in flat.items()}


def _tags(
    state: State, reason: str | None, environment: Mapping[str, Any], result: Mapping[str, Any] | None
) -> dict[str, str]:
    """An empty reason takes the place of that of an earlier attempt."""
    facts: dict[str, Any] = {"state": str(state), "reason": reason or ""}
    facts["mlflow.note.content"] = f"**{state}**: {reason}" if reason else ""
    for name, value in environment.items():
        if name not in ("kind", "timestamp"):
            facts[f"environment.{name}"] = (
                ", ".join(f"{k} {v}" for k, v in value.items()) if name == "packages" else value
            )
    if "git_commit" in environment:
        facts["mlflow.source.git.commit"] = environment["git_commit"]
    if result is not None:
        facts["weights_sha256"] = result["weights_sha256"]
    names = safe_names(facts)
    return {names[k]: (v if isinstance(v, str) else json.dumps(v))[:MAX_TAG] for k, v in facts.items()}


def _data_set(trial: Mapping[str, Any]) -> DataSet:
    facts = dict(trial.get("data", {}))
    schema = ""
    if "dim" in facts and "dtype" in facts:
        tensor = {"type": "tensor", "tensor-spec": {"dtype": facts["dtype"], "shape": [-1, facts["dim"]]}}
        schema = json.dumps({"mlflow_tensorspec": {"features": json.dumps([tensor]), "targets": None}})
    fingerprint = str(trial["data_fingerprint"])
    return DataSet(
        name=f"{PurePath(trial['store']).name}, split {trial['split']}",
        digest=fingerprint[:MAX_DIGEST],
        source=json.dumps({"uri": trial["store"]}),
        schema=schema,
        profile=json.dumps({"fingerprint": fingerprint, "split": trial["split"], "part": trial["part"], **facts}),
    )


def artifacts(folder: TrialFolder) -> list[tuple[Path, str]]:
    """What a finished trial's run keeps besides config.json: (file or folder, where it stands in the run)."""
    found = [
        (folder.run_path / "checkpoint", "checkpoint"),
        (folder.path / "predictions", "predictions"),
        (folder.path / "result.json", ""),
        (folder.path / "source.patch", ""),
    ]
    return [(path, place) for path, place in found if path.exists()]

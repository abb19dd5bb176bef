"""Scores from the runs of an experiment on a tracking server."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mucon.errors import InputError, Problem, nearest, some
from sweeps.service.exchange.outside import Record, stored_value
from sweeps.service.plan.imported import Source
from sweeps.service.text import redacted
from sweeps.service.track.probe import probe
from sweeps.service.track.server import ServerError, checked_uri, exists, unreachable

FINISHED = "FINISHED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names under which runs have what a record needs.

    Attributes:
        row: parameter or tag with the label of the row; runs without it are left out.
        seed: parameter or tag with the seed; runs may lack it.
        split: parameter or tag with the split; None if runs do not state it.
        metrics: name of a metric on the server -> prediction and metric.
        scale: how the runs state shares.
    """

    row: str
    seed: str
    split: str | None
    metrics: Mapping[str, tuple[str, str]]
    scale: str


def read_runs(
    uri: str, experiment: str, label_titles: Sequence[str], names: Names
) -> tuple[list[Record], Source, list[str]]:
    """The records of the finished runs, each with the last value of its metrics.

    Args:
        uri: address of the server.
        experiment: name of the experiment.
        label_titles: heads of the label columns of the table; runs have the first label.
        names: where runs have what.

    Returns:
        The records, their source, and a line for each run with a row that has not finished.

    Raises:
        InputError: the server does not respond; no such experiment; no run with a row; or one problem per missing or
            wrong value of a run.
    """
    place = f"{redacted(uri)}: {experiment}"
    if not exists(uri):
        raise InputError(Problem(rule="missing", place=redacted(uri), message="no such database"))
    uri = checked_uri(uri)
    try:
        probe(uri, experiment)
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        client = Client(uri, experiment, create=False)
        runs = sorted(client.measured(), key=lambda run: run.run_id)
    except (ServerError, OSError) as error:
        raise unreachable(uri, error) from error
    if not client.experiment:
        message = f"no experiment {experiment!r} on the server"
        raise InputError(Problem(rule="unknown", place=redacted(uri), value=experiment, message=message))
    named = [run for run in runs if run.facts.get(names.row)]
    if not named:
        known = sorted({name for run in runs for name in run.facts})
        message = f"none of {len(runs)} runs has a parameter or tag {names.row!r}{nearest(names.row, known)}"
        raise InputError(
            Problem(rule="missing", place=place, value=names.row, message=message, hint=f"runs have {some(known)}")
        )
    left_out = [f"run {run.run_id} is {run.status}" for run in named if run.status != FINISHED]
    records: list[Record] = []
    problems: list[Problem] = []
    for run in named:
        if run.status == FINISHED:
            try:
                records.append(_record(run.run_id, run.facts, run.metrics, label_titles, names))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    if not records:
        raise InputError(Problem(rule="missing", place=place, value=names.row, message="no finished run with a row"))
    values = [
        [*one.labels, one.split, one.seed, sorted((*name, v) for name, v in one.scores.items())] for one in records
    ]
    source = Source(
        kind="mlflow",
        name=place,
        sha256=hashlib.sha256(json.dumps(values).encode()).hexdigest(),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        scale=names.scale,
    )
    return records, source, left_out


def _record(
    run_id: str, facts: Mapping[str, str], metrics: Mapping[str, float], label_titles: Sequence[str], names: Names
) -> Record:
    place = f"run {run_id}"
    problems: list[Problem] = []
    scores: dict[tuple[str, str], float] = {}
    for given, (prediction, metric) in names.metrics.items():
        if given not in metrics:
            message = f"no metric {given!r}{nearest(given, list(metrics))}"
            problems.append(Problem(rule="missing", place=place, value=given, message=message))
            continue
        try:
            scores[prediction, metric] = stored_value(metrics[given], metric, names.scale, f"{place}: {given}")
        except InputError as error:
            problems += error.problems
    seed = facts.get(names.seed)
    if seed is not None and not seed.removeprefix("-").isdecimal():
        problems.append(Problem(rule="type", place=f"{place}: {names.seed}", value=seed, expected="a whole number"))
    split = None if names.split is None else facts.get(names.split)
    if names.split is not None and split is None:
        message = f"no parameter or tag {names.split!r}"
        problems.append(Problem(rule="missing", place=place, value=names.split, message=message))
    if problems:
        raise InputError(problems)
    labels = (facts[names.row], *("" for _ in label_titles[1:]))
    return Record(place=place, labels=labels, split=split, seed=None if seed is None else int(seed), scores=scores)

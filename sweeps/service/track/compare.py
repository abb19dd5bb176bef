"""What a tracking server has of a results folder, and of which trials models are registered there; changes neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucon.errors import InputError, Problem, some
from sweeps.service.plan.sweep_folder import read_sweeps
from sweeps.service.text import HIDDEN
from sweeps.service.track.content.changes import WEIGHTS_TAG, Run
from sweeps.service.track.content.records import STATUS, Point, TrialRecord, read_record
from sweeps.service.track.probe import probe
from sweeps.service.track.server import ServerError, checked_uri, exists, unreachable
from sweeps.service.track.sync import started_trials
from sweeps.service.track.tracker import TRACKING_EXPERIMENT
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder

if TYPE_CHECKING:
    from sweeps.service.track.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between a results folder and a tracking server.

    Attributes:
        place: identity of a trial, or name of a sweep.
        kind: `runs`, `status`, `weights`, `epochs`, `scores` or `unreadable`.
        expected: what the results folder has.
        found: what the server has.
    """

    place: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: expected {self.expected}, found {self.found}"


def compare(results: ResultsFolder, uri: str) -> list[Difference]:
    """The differences between a results folder and a tracking server; empty if the server shows everything.

    Raises:
        InputError: no trials, or a server that does not answer or is no MLflow server.
    """
    trials = started_trials(results).values()
    client = None
    try:
        if exists(uri):
            uri = checked_uri(uri)
            probe(uri, TRACKING_EXPERIMENT)
            from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

            client = Client(uri, TRACKING_EXPERIMENT, create=False)
        return list(_differences(results, trials, client))
    except (ServerError, OSError) as error:
        raise unreachable(uri, error) from error


def _differences(results: ResultsFolder, trials: Iterable[TrialFolder], client: Client | None) -> Iterator[Difference]:
    found: dict[str, list[Run]] = {}
    for run in client.search("tags.trial LIKE '%'") if client else ():
        found.setdefault(run.tags["trial"], []).append(run)
    for folder in trials:
        try:
            record = read_record(TrialReading(folder))
        except InputError as error:
            yield Difference(place=folder.identity, kind="unreadable", expected="a whole trial", found=error.line)
            continue
        runs = found.get(folder.identity, [])
        if record is not None and (client is None or len(runs) != 1):
            yield Difference(place=folder.identity, kind="runs", expected="1", found=str(len(runs)))
        elif record is not None and client is not None:
            yield from _trial(record, runs[0], client)
    sweeps, unreadable = read_sweeps(results)
    for name, reason in unreadable.items():
        yield Difference(place=name, kind="unreadable", expected="a record", found=reason)
    for sweep in sweeps:
        name = sweep.sweep.name
        if client is None or not client.search(f"tags.sweep = '{name}'"):
            yield Difference(place=name, kind="runs", expected="1", found="0")


def _trial(record: TrialRecord, run: Run, client: Client) -> Iterator[Difference]:
    """What the run of a trial lacks or has otherwise."""
    expected = {"status": STATUS[record.state]}
    found = {"status": run.status}
    if record.state is State.FINISHED:
        expected["weights"] = record.tags[WEIGHTS_TAG]
        found["weights"] = run.tags.get(WEIGHTS_TAG, "none")
    for kind, value in expected.items():
        if found[kind] != value:
            yield Difference(place=record.identity, kind=kind, expected=value, found=found[kind])
    by_name: dict[str, list[Point]] = {}
    for point in (*record.curves, *record.scores, *(p for points in record.evaluations.values() for p in points)):
        by_name.setdefault(point.name, []).append(point)
    for name, points in by_name.items():
        wanted = Counter(point.step for point in points)
        shown = Counter(point.step for point in client.history(run.run_id, name))
        if wrong := sorted(step for step in wanted | shown if wanted[step] != shown[step]):
            kind = "scores" if wrong == [0] else "epochs"
            steps = f"{name} of epoch{'s' * (len(wrong) > 1)} {some(wrong)} once"
            times = ", ".join(dict.fromkeys(str(shown[step]) for step in wrong))
            yield Difference(place=record.identity, kind=kind, expected=steps, found=f"{times} times")


def registered_trials(results: ResultsFolder, uri: str | None) -> frozenset[str]:
    """The identities of the trials from whose runs on a tracking server models were registered.

    Args:
        results: the results folder.
        uri: address of the server; None: those to which the sweeps of the folder were shipped.

    Raises:
        InputError: a server does not respond, or its password is needed.
    """
    shipped = [] if uri else [address for record in read_sweeps(results)[0] for address in record.shipped]
    addresses = {uri or results.tracking_uri, *shipped}
    hidden = [address for address in addresses if HIDDEN in address]
    if hidden:
        message, hint = (
            f"the password of {hidden[0]} is not stored",
            "pass the whole address, to see what is registered",
        )
        raise InputError(Problem(rule="missing", place="--tracking-uri", value=hidden[0], message=message, hint=hint))
    return frozenset().union(*map(_registered, sorted(addresses)))


def _registered(uri: str) -> frozenset[str]:
    if not exists(uri):  # as after a move of the results folder
        return frozenset()
    uri = checked_uri(uri)
    try:
        probe(uri, TRACKING_EXPERIMENT)
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        return frozenset(Client(uri, TRACKING_EXPERIMENT, create=False).registered())
    except (ServerError, OSError) as error:
        raise unreachable(uri, error) from error

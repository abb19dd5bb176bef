"""Computes the updates that a run needs and splits them into batches that the server accepts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mucon.errors import some
from sweeps.service.text import redacted
from sweeps.service.track.content.names import METRIC_NAMES
from sweeps.service.track.content.records import Point, TrialRecord

POINTS_PER_BATCH = 800
PARAMS_PER_BATCH = 100
"""Parameters, and also tags. A server accepts 1,000 metrics, 100 parameters, 100 tags, and 1,000 items in total."""
STEP_TAG = "shipped_step"
"""The newest epoch whose values a run has; the server writes the tags of a batch after its metrics."""
EVALUATIONS_TAG = "shipped_evaluations"
"""Identities of the later evaluations whose scores a run has."""
MAX_EVALUATIONS_IN_TAG = 290
"""Identities that fit into a tag; scores of further evaluations are sent every time, which changes nothing."""
WEIGHTS_TAG = "weights_sha256"
PARENT_TAG = "mlflow.parentRunId"
NOTE_TAG = "mlflow.note.content"
"""The description on the page of a run."""
NAMES_TAG = "metric_names"
"""Version of the names of a run's metrics, see `METRIC_NAMES`; absent in runs of version 1."""
WRITER_TAG = "writer"
"""The results folder that sends the run, see `writer_of`."""
HEARD_TAG = "heard_at"
"""Milliseconds since 1970 by the clock of the writer, which changes it while the run is running."""
OWNER_TAG = "trained_by"
"""The sweep whose run is the parent of a trial's run; other sweeps that use the trial only set `sweep.NAME`."""


@dataclass(slots=True)
class Run:
    """A run on the server, as far as it is known here."""

    run_id: str
    status: str = ""
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)
    has_data: bool = False

    @property
    def shipped_step(self) -> int:
        """The newest epoch whose values the run has; 0 before the first."""
        return int(self.tags.get(STEP_TAG, "0"))

    @property
    def is_current(self) -> bool:
        """Whether its metrics have the names that this program sends."""
        return self.tags.get(NAMES_TAG) == METRIC_NAMES


def kept_tags(run: Run) -> dict[str, str]:
    """The tags of a run that its replacement gets at once; those that mark what was sent are left out."""
    marks = (STEP_TAG, EVALUATIONS_TAG, WEIGHTS_TAG, WRITER_TAG, HEARD_TAG, "mlflow.runName")
    return {name: value for name, value in run.tags.items() if name not in marks}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """Outcome of a shipment.

    Attributes:
        shipped: identities of the trials whose runs are up to date.
        pending: identity -> reason why the run is not up to date.
        unreachable: error message if the server could not be reached.
        refused: identities of the pending trials of which the server refused a request.
        elsewhere: identities of the pending trials whose runs another results folder sends.
        unreadable: reason why the record of the sweep could not be read; its trials are not shipped.
        stopped: whether its time was over before everything was sent.
    """

    shipped: tuple[str, ...] = ()
    pending: Mapping[str, str] = field(default_factory=dict)
    unreachable: str | None = None
    refused: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    unreadable: str | None = None
    stopped: bool = False

    @property
    def complete(self) -> bool:
        """Whether the server has everything."""
        return not (self.pending or self.unreachable is not None or self.unreadable is not None or self.stopped)

    def lines(self, results: object, uri: str) -> list[str]:
        """Lines for the terminal; none if the server has everything.

        >>> Shipment(pending={"ab": "no answer"}).lines("my results", "http://h:1")[-1]
        "to send it later: mucon-sweeps sync 'my results' --tracking-uri http://h:1"
        """
        if self.unreadable is not None:
            return [self.unreadable]
        if self.complete:
            return []
        uri, folder = redacted(uri), shlex.quote(str(results))
        reasons = []
        if self.unreachable is not None:
            reasons = [f"cannot reach the tracking server at {uri} ({self.unreachable})"]
        elif not self.stopped:
            by_reason: dict[str, list[str]] = {}
            for identity, reason in self.pending.items():
                by_reason.setdefault(reason, []).append(identity)
            reasons = [
                f"trial{'s' * (len(trials) > 1)} {some(trials)}: {reason}" for reason, trials in by_reason.items()
            ]
        missing = f"{len(self.pending)} trial{'s' * (len(self.pending) > 1)}" if self.pending else "the sweep's tables"
        return [
            *reasons,
            f"not yet in MLflow: {missing}; nothing is lost, {results} contains everything",
            f"to send it later: mucon-sweeps sync {folder} --tracking-uri {shlex.quote(uri)}",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Updates of a run; all empty if it is up to date."""

    points: tuple[Point, ...]
    params: dict[str, str]
    tags: dict[str, str]


def changes(run: Run, record: TrialRecord, tags: Mapping[str, str]) -> Changes:
    """The part of a trial's record that its run lacks.

    Args:
        run: the current run.
        record: the trial's record.
        tags: further tags of the run, set by the sweep.
    """
    shipped = run.shipped_step
    points = [point for point in record.curves if point.step > shipped]
    if record.tags.get(WEIGHTS_TAG, "") != run.tags.get(WEIGHTS_TAG, ""):
        points += record.scores
    sent = run.tags.get(EVALUATIONS_TAG, "").split()
    points += [point for name, scores in record.evaluations.items() if name not in sent for point in scores]
    evaluations = " ".join(list(dict.fromkeys([*record.evaluations, *sent]))[:MAX_EVALUATIONS_IN_TAG])
    last = max(shipped, record.last_step)
    expected = {**record.tags, **tags, STEP_TAG: str(last), EVALUATIONS_TAG: evaluations}
    return Changes(
        points=tuple(points),
        params={name: value for name, value in record.params.items() if name not in run.params},
        tags={name: value for name, value in expected.items() if run.tags.get(name, "") != value},
    )


def batches(change: Changes) -> Iterator[tuple[Sequence[Point], Mapping[str, str], Mapping[str, str]]]:
    """Points, parameters and tags in batches that a server accepts; tags, which mark progress, come in the last ones.

    >>> [len(part) for part in next(batches(Changes(points=(), params={"a": "1"}, tags={"b": "2"})))]
    [0, 1, 1]
    """
    params, tags = list(change.params.items()), list(change.tags.items())
    first = max(-(-len(change.points) // POINTS_PER_BATCH), -(-len(params) // PARAMS_PER_BATCH), bool(tags))
    further = max(0, -(-len(tags) // PARAMS_PER_BATCH) - 1)
    for batch in range(first + further):
        tag_batch = max(0, batch - first + 1) if batch >= first - 1 else None
        yield (
            change.points[batch * POINTS_PER_BATCH : (batch + 1) * POINTS_PER_BATCH],
            dict(params[batch * PARAMS_PER_BATCH : (batch + 1) * PARAMS_PER_BATCH]),
            {} if tag_batch is None else dict(tags[tag_batch * PARAMS_PER_BATCH : (tag_batch + 1) * PARAMS_PER_BATCH]),
        )

"""The difference between what a run is and what it shall be, cut into the server's portions; plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.service.track.records import Point, TrialRecord

POINTS_PER_CALL = 800
"""A server takes 1,000 metrics, 100 parameters and 100 tags, and 1,000 of all together."""
OTHERS_PER_CALL = 100
STEP_TAG = "shipped_step"
"""The newest epoch that a run has whole: sent with it, and written by the server behind the metrics."""
EVALUATIONS_TAG = "shipped_evaluations"
"""Identities of the later evaluations whose scores a run has."""
EVALUATIONS_TOLD = 290
"""So many fit into a tag; the scores of more are sent each time, which changes nothing."""
WEIGHTS_TAG = "weights_sha256"
PARENT_TAG = "mlflow.parentRunId"
OWNER_TAG = "trained_by"
"""The sweep under whose parent a trial's run stands; others that use the trial set `sweep.NAME` only."""


@dataclass(slots=True)
class Run:
    """What is known of a run on the server."""

    run_id: str
    status: str = ""
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)
    has_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """What a call has achieved.

    Attributes:
        shipped: identities whose runs are now as their folders.
        pending: identity -> why its run is not yet as its folder.
        unreachable: what was said when the server could not be reached, or None.
    """

    shipped: tuple[str, ...] = ()
    pending: Mapping[str, str] = field(default_factory=dict)
    unreachable: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the server shows everything."""
        return not self.pending and self.unreachable is None

    def lines(self, results: object, uri: str) -> list[str]:
        """What people are told at the end: nothing where everything is on the server.

        >>> Shipment(pending={"ab": "no answer"}, unreachable="no answer").lines("results", "http://h:1")[-1]
        'later: mucon-sweeps sync results --tracking-uri http://h:1'
        """
        if self.complete:
            return []
        if self.unreachable is not None:
            why = [f"the tracking server {uri} cannot be reached ({self.unreachable})"]
        else:
            why = [f"trial {identity}: {reason}" for identity, reason in self.pending.items()]
        what = f"{len(self.pending)} trial{'s' * (len(self.pending) > 1)}" if self.pending else "the sweep's tables"
        return [
            *why,
            f"{what} not yet in MLflow; nothing is lost, {results} holds everything",
            f"later: mucon-sweeps sync {results} --tracking-uri {uri}",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be sent to a run; all empty where it is as it shall be."""

    points: tuple[Point, ...]
    params: dict[str, str]
    tags: dict[str, str]


def changes(run: Run, record: TrialRecord, tags: Mapping[str, str]) -> Changes:
    """What a run lacks of its trial's record.

    Args:
        run: as it is known.
        record: of the trial.
        tags: those that the sweep adds.
    """
    shipped = int(run.tags.get(STEP_TAG, "0"))
    points = [point for point in record.curves if point.step > shipped]
    if record.tags.get(WEIGHTS_TAG, "") != run.tags.get(WEIGHTS_TAG, ""):
        points += record.scores
    there = run.tags.get(EVALUATIONS_TAG, "").split()
    points += [point for name, scores in record.evaluations.items() if name not in there for point in scores]
    now = " ".join(list(record.evaluations)[:EVALUATIONS_TOLD])
    wanted = {**record.tags, **tags, STEP_TAG: str(record.last_step), EVALUATIONS_TAG: now}
    return Changes(
        points=tuple(points),
        params={name: value for name, value in record.params.items() if name not in run.params},
        tags={name: value for name, value in wanted.items() if run.tags.get(name, "") != value},
    )


def calls(change: Changes) -> Iterator[tuple[Sequence[Point], Mapping[str, str], Mapping[str, str]]]:
    """The change in portions that a server takes, with the tags, which say how far it is, in the last ones.

    >>> [len(part) for part in next(calls(Changes(points=(), params={"a": "1"}, tags={"b": "2"})))]
    [0, 1, 1]
    """
    params, tags = list(change.params.items()), list(change.tags.items())
    before = max(-(-len(change.points) // POINTS_PER_CALL), -(-len(params) // OTHERS_PER_CALL), bool(tags))
    behind = max(0, -(-len(tags) // OTHERS_PER_CALL) - 1)
    for call in range(before + behind):
        of_tags = max(0, call - before + 1) if call >= before - 1 else None
        yield (
            change.points[call * POINTS_PER_CALL : (call + 1) * POINTS_PER_CALL],
            dict(params[call * OTHERS_PER_CALL : (call + 1) * OTHERS_PER_CALL]),
            {} if of_tags is None else dict(tags[of_tags * OTHERS_PER_CALL : (of_tags + 1) * OTHERS_PER_CALL]),
        )

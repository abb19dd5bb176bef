"""The comparison of models as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mucon.errors import InputError, Problem
from mucon.metrics.catalogue import METRICS, Metric, metric_of
from storage import StoreError, open_store
from sweeps.service.compare.actions import Confusion, Recall, confusions, recalls
from sweeps.service.compare.differences import Difference, differences
from sweeps.service.compare.entrants import COMPARED, Entrant
from sweeps.service.compare.noise import Noise, noise
from sweeps.service.stats.videos import Compared, compare_pairs
from sweeps.service.trials.differences import Recordings

FORMAT_VERSION = 1
BOUNDARIES = ("boundary_error_frames", "boundary_error_median_frames")


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoDifference:
    """A metric of one video in two entrants, in the unit of the result files."""

    id: str
    first: float
    second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The first entrant and another one.

    Attributes:
        second: the other entrant.
        recordings: how its scored recordings differ from the first one's; None if they are the same.
        same_labels: whether the true frames of the actions are the same, as far as they are recorded.
        n_common: number of videos that both are scored on; 0 for other tasks.
        metrics: the metrics of both with their tests.
        noise: metric -> the difference beside the spread over seeds.
        videos: the videos by the deciding metric, the largest difference first.
    """

    second: Entrant
    recordings: Recordings | None
    same_labels: bool
    n_common: int
    metrics: tuple[Compared, ...] = ()
    noise: Mapping[str, Noise]
    videos: tuple[VideoDifference, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether both are scored on the same recordings and labels."""
        return self.recordings is None and self.same_labels and self.n_common > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Models beside the first one.

    Attributes:
        entrants: the compared models.
        metric: the metric that orders the videos.
        unit: `videos`, or `subjects` if the store has groups.
        differences: recorded facts in which the entrants differ.
        pairs: the first entrant with each other one.
        recalls: by action.
        confusions: by pair of actions.
    """

    entrants: tuple[Entrant, ...]
    metric: Metric
    unit: str
    differences: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    recalls: tuple[Recall, ...]
    confusions: tuple[Confusion, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "metric": self.metric.name,
            "unit": self.unit,
            "models": [
                {
                    "name": one.name,
                    "trainings": [training.name for training in one.trainings],
                    "prediction": one.prediction,
                    "row": one.row or None,
                    "without": {str(seed): reason for seed, reason in one.without.items()},
                }
                for one in self.entrants
            ],
            "differences": [asdict(one) for one in self.differences],
            "pairs": [_pair_dict(pair) for pair in self.pairs],
            "recall": [asdict(one) for one in self.recalls],
            "confusions": [asdict(one) for one in self.confusions],
        }


def compare(entrants: Sequence[Entrant], metric: str) -> Comparison:
    """Compares entrants with the first one.

    Args:
        entrants: at least two.
        metric: name of the metric that orders the videos.

    Raises:
        InputError: an unknown metric, one without values by video, or a training of an unknown method.
    """
    chosen = metric_of(metric)
    if not chosen.per_video:
        message = f"{metric} has no value for each recording"
        raise InputError(Problem(rule="unsupported", place="--metric", value=metric, message=message))
    rows = [entrant.per_video() for entrant in entrants]
    tasks = [_task(entrant) for entrant in entrants]
    metrics = [one for one in METRICS if one == chosen or one.name in BOUNDARIES or _is_shown(one, tasks[0])]
    ids = [{row["id"] for row in of} for of in rows]
    groups = _groups(entrants[0], set().union(*ids))
    common = [len(ids[0] & of) if task == tasks[0] else 0 for of, task in zip(ids, tasks, strict=True)]
    tested = iter(
        compare_pairs(
            [(rows[0], of) for of, n in zip(rows[1:], common[1:], strict=True) if n], COMPARED, metrics, groups
        )
    )
    pairs = []
    for other, of, n in zip(entrants[1:], rows[1:], common[1:], strict=True):
        found = next(tested) if n else ()
        now, then = ({row["id"]: row["n_frames"] for row in table} for table in (of, rows[0]))
        recordings = Recordings.between([(now, then)])
        pairs.append(
            Pair(
                second=other,
                recordings=None if recordings.are_same else recordings,
                same_labels=_same_labels(entrants[0], other),
                n_common=n,
                metrics=found,
                noise={one.metric.name: noise(entrants[0], other, one, groups) for one in found},
                videos=_videos(rows[0], of, metric) if n else (),
            )
        )
    return Comparison(
        entrants=tuple(entrants),
        metric=chosen,
        unit="videos" if groups is None else "subjects",
        differences=differences(entrants),
        pairs=tuple(pairs),
        recalls=recalls(entrants),
        confusions=confusions(entrants),
    )


def _is_shown(metric: Metric, task: str) -> bool:
    return task in metric.printed and not metric.ignores_background


def _task(entrant: Entrant) -> str:
    return str(entrant.first.result.get("task", "segmentation"))


def _same_labels(first: Entrant, second: Entrant) -> bool:
    frames = [one.first.result.get("true_frames") for one in (first, second)]
    return None in frames or frames[0] == frames[1]


def _videos(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], metric: str
) -> tuple[VideoDifference, ...]:
    values = [{row["id"]: row[COMPARED].get(metric) for row in rows} for rows in (first, second)]
    found = [
        VideoDifference(id=id, first=value, second=other)
        for id, value in values[0].items()
        if value is not None and (other := values[1].get(id)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (-abs(one.second - one.first), one.id)))


def _groups(entrant: Entrant, ids: set[str]) -> dict[str, str] | None:
    """Video -> its group in the entrant's store; None if the store is elsewhere now or lacks a group."""
    try:
        store = open_store(entrant.first.trial["store"])
        groups = {id: store.record(id).group for id in sorted(ids)}
    except (StoreError, KeyError, OSError):
        return None
    return {id: group for id, group in groups.items() if group is not None} if groups and all(groups.values()) else None


def _pair_dict(pair: Pair) -> dict[str, Any]:
    metrics = []
    for one in pair.metrics:
        noise_of = pair.noise[one.metric.name]
        metrics.append(
            {
                "metric": one.metric.name,
                "first": one.first,
                "second": one.second,
                "n_videos": len(one.videos),
                "p": one.outcome.adjusted_p,
                "reason": one.outcome.reason,
                "seed_noise": {
                    "limit": noise_of.limit,
                    "inside": noise_of.is_inside,
                    "rows": [asdict(spread) for spread in noise_of.spreads],
                },
            }
        )
    return {
        "second": pair.second.name,
        "comparable": pair.is_comparable,
        "same_labels": pair.same_labels,
        "recordings": None if pair.recordings is None else asdict(pair.recordings),
        "n_common": pair.n_common,
        "metrics": metrics,
        "videos": [asdict(one) for one in pair.videos],
    }

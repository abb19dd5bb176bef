"""Scores of a trained model on annotated recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mucon.arrays import Ints
from mucon.decoding.batches import Job, decode_many
from mucon.decoding.config import DecodingConfig
from mucon.device import choose_device, cpu_threads
from mucon.errors import InputError, Problem, nearest
from mucon.identity.trained_on import warn_if_seen
from mucon.inference.requests import (
    TASKS,
    Prediction,
    action_problems,
    check_predictions,
    unsupported_task,
)
from mucon.method import Predictor, training_of
from mucon.metrics.alignment import alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.confusion import (
    confusion_matrix,
    frames_per_action,
    precision_per_action,
    recall_per_action,
    to_lists,
)
from mucon.metrics.scores import Scores, score
from mucon.segments import Segmentation, Truth
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

LENGTHS, TRANSCRIPT, NOTHING = "lengths", "transcript", "none"
"""How much of a recording is annotated, in `Evaluation.per_video`."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores and predictions over a set of recordings.

    Attributes:
        task: `segmentation` (the model names the segments) or `alignment` (the true transcripts are given).
        scores: prediction -> metric -> fraction 0..1, frames or seconds for boundary errors, or a number for log
            lengths; a metric that no recording defines is absent. `mucon.metrics` defines them; those by index exist in
            alignment only.
        undefined: prediction -> metric -> number of recordings that do not define it and are not counted.
        recall: prediction -> action -> share of its true frames that are predicted correctly; None for an action
            without true frames. Like `precision` and `confusion`, over the recordings with true lengths.
        precision: prediction -> action -> share of its predicted frames that are correct; None for an action that is
            never predicted.
        confusion: prediction -> `[N][N]` frames: rows are true, columns predicted actions, in the order of the
            vocabulary. Frames of a recording with an empty prediction are in no column. With more than
            `mucon.metrics.confusion.DENSE_UP_TO` actions, a row `[true, predicted, frames]` for each pair that occurs.
        true_frames: action -> its frames over all recordings with true lengths.
        per_video: for each recording `id`, `n_frames`, `annotation` (`lengths`, `transcript` or `none`), `cut`,
            `empty`, and per prediction the metrics (None if undefined).
        segmentations: prediction -> recording -> segmentation.
        seconds: prediction -> mean seconds per recording, without the first recording (which includes loading and
            compilation) unless it is the only one.
        not_predicted: prediction -> recording -> reason, for the recordings that have no such prediction; no metric
            counts them.
    """

    task: str
    scores: dict[str, dict[str, float]]
    undefined: dict[str, dict[str, int]]
    recall: dict[str, dict[str, float | None]]
    precision: dict[str, dict[str, float | None]]
    confusion: dict[str, list[list[int]]]
    true_frames: dict[str, int]
    per_video: list[dict[str, Any]]
    segmentations: dict[str, dict[str, Segmentation]]
    seconds: dict[str, float]
    not_predicted: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def n_cut(self) -> int:
        """Number of recordings whose transcript was cut."""
        return sum(bool(row["cut"]) for row in self.per_video)

    @property
    def n_empty(self) -> int:
        """Number of recordings with an empty prediction, in which no frame has an action."""
        return sum(bool(row["empty"]) for row in self.per_video)

    @property
    def n_without_lengths(self) -> int:
        """Number of recordings whose true lengths are unknown."""
        return sum(row["annotation"] != LENGTHS for row in self.per_video)

    def to_dict(self) -> dict[str, Any]:
        """Everything except the segmentations, for JSON."""
        return {
            "task": self.task,
            "scores": self.scores,
            "undefined": self.undefined,
            "not_predicted": self.not_predicted,
            "recall": self.recall,
            "precision": self.precision,
            "confusion": self.confusion,
            "true_frames": self.true_frames,
            "cut": self.n_cut,
            "empty": self.n_empty,
            "per_video": self.per_video,
            "seconds": self.seconds,
        }


def evaluate(
    predictor: Predictor,
    videos: Sequence[Video],
    *,
    device: str = "cpu",
    predictions: Sequence[str] | None = None,
    decoding: DecodingConfig | None = None,
    task: str = "segmentation",
    fps: float | None = None,
    training_videos: Sequence[Video] = (),
    threads: int = 1,
) -> Evaluation:
    """Predicts every recording and compares it with its annotation.

    The network computes with the number of threads of the model's training (`training.threads`).

    Args:
        predictor: a trained model; it is not changed, a copy computes.
        videos: a recording without lengths counts in the metrics of transcripts only, one without transcript in none.
        device: device of the network.
        predictions: names of the predictions; by default all that the predictor offers.
        decoding: choices of decoding; by default those of the predictor.
        task: `segmentation`, or `alignment` with the true transcripts.
        fps: frames per second of the recordings, or None for boundary errors in frames only.
        training_videos: only read if `decoding` needs facts about them and the predictor has none.
        threads: threads that decode while the network processes later recordings; they do not affect the result.

    Raises:
        InputError: an unknown prediction or task, a task that the method does not support, no recording, fps out of
            range, or one problem per recording with unknown actions.

    Warns:
        DataWarning: recordings that the model was trained on.
    """
    problems = _problems(videos, task, predictor)
    if problems:
        raise InputError(problems)
    if predictor.trained_on is not None:
        warn_if_seen(predictor.trained_on, videos, place=f"the {predictor.method} model")
    names = predictor.predictions if predictions is None else tuple(predictions)
    check_predictions(names, predictor.predictions)
    with cpu_threads(training_of(predictor.config).threads):
        used = predictor.to(choose_device(device)).prepared(training_videos, decoding)
        jobs = (Job(video.id, _begun(used, video, names, decoding, task)) for video in videos)
        found = list(decode_many(jobs, threads=threads, bunch=1))
    return _evaluation(videos, found, names, predictor.vocabulary, task, fps)


def _problems(videos: Sequence[Video], task: str, predictor: Predictor) -> list[Problem]:
    if task not in TASKS:
        message = f"unknown task {task!r}{nearest(task, TASKS)}"
        return [Problem(rule="unknown", place="task", value=task, message=message)]
    if task not in predictor.tasks:
        return [unsupported_task(predictor.method, task)]
    if not videos:
        return [Problem(rule="missing", place="videos", message="no recording to evaluate", hint="use another split")]
    return [
        problem for video in videos for problem in action_problems(video.transcript, predictor.vocabulary, video.id)
    ]


def _begun(
    predictor: Predictor, video: Video, predictions: Sequence[str], decoding: DecodingConfig | None, task: str
) -> Callable[[], Prediction]:
    features = video.features(predictor.device)
    if task == "alignment":
        aligned = predictor.align(features, video.transcript, predictions=predictions, decoding=decoding)
        return lambda: aligned
    return predictor.begin(features, predictions=predictions, decoding=decoding)


def _evaluation(
    videos: Sequence[Video],
    found: Sequence[Prediction],
    names: Sequence[str],
    vocabulary: Vocabulary,
    task: str,
    fps: float | None,
) -> Evaluation:
    truths = [video.truth for video in videos]
    segmentations = {name: [one.segmentations.get(name) for one in found] for name in names}
    results = {name: _scores(truths, predicted, vocabulary, task, fps) for name, predicted in segmentations.items()}
    actions = vocabulary.actions
    confusion = {name: confusion_matrix(truths, predicted, len(actions)) for name, predicted in segmentations.items()}

    def of_actions(values: Sequence[float | None]) -> dict[str, float | None]:
        return dict(zip(actions, values, strict=True))

    return Evaluation(
        task=task,
        scores={name: result.values for name, result in results.items()},
        undefined={name: result.undefined for name, result in results.items()},
        recall={
            name: of_actions(recall_per_action(counts, _frames(truths, segmentations[name], len(actions))))
            for name, counts in confusion.items()
        },
        precision={name: of_actions(precision_per_action(counts)) for name, counts in confusion.items()},
        confusion={name: to_lists(counts) for name, counts in confusion.items()},
        true_frames=dict(zip(actions, frames_per_action(truths, len(actions)).tolist(), strict=True)),
        per_video=[
            {
                "id": video.id,
                "n_frames": video.n_frames,
                "annotation": LENGTHS if video.lengths is not None else TRANSCRIPT if video.transcript else NOTHING,
                "cut": one.cut,
                "empty": any(not segmentation.n_segments for segmentation in one.segmentations.values()),
                **{name: result.per_video[index] for name, result in results.items()},
            }
            for index, (video, one) in enumerate(zip(videos, found, strict=True))
        ],
        segmentations={
            name: {video.id: one for video, one in zip(videos, predicted, strict=True) if one is not None}
            for name, predicted in segmentations.items()
        },
        seconds=_mean_seconds([one.seconds for one in found]),
        not_predicted={
            name: {
                video.id: one.undefined[name].line
                for video, one in zip(videos, found, strict=True)
                if name in one.undefined
            }
            for name in names
        },
    )


def _frames(truths: Sequence[Truth], predicted: Sequence[Segmentation | None], n_actions: int) -> Ints:
    """True frames of each action in the recordings that have the prediction."""
    compared = [truth for truth, one in zip(truths, predicted, strict=True) if one is not None]
    return frames_per_action(compared, n_actions)


def _mean_seconds(seconds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    means = {}
    for name in dict.fromkeys(name for one in seconds for name in one):
        counted = [one[name] for one in seconds[1:] if name in one] or [seconds[0][name]]
        means[name] = sum(counted) / len(counted)
    return means


def _scores(
    truths: Sequence[Truth],
    predicted: Sequence[Segmentation | None],
    vocabulary: Vocabulary,
    task: str,
    fps: float | None,
) -> Scores:
    found = score(truths, predicted, vocabulary.background_ids) | boundary_scores(truths, predicted, fps=fps)
    if task == "alignment":
        found |= alignment_scores(truths, predicted, vocabulary.background_ids, fps=fps)
    return found

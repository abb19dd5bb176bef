"""How good a trained model is on recordings whose segmentation is known."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mucon.checkpoint import Checkpoint
from mucon.decoding.batches import Job, decode_many
from mucon.decoding.config import DecodingConfig
from mucon.device import choose_device
from mucon.errors import InputError, nearest
from mucon.inference import PREDICTIONS, TASKS, Prediction, align_transcript
from mucon.inference.predictions import begin, transcript_problems
from mucon.inference.training_facts import training_facts
from mucon.metrics.alignment import alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.confusion import confusion_matrix, frames_per_action, precision_per_action, recall_per_action
from mucon.metrics.scores import Scores, score
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores and predictions over a set of recordings.

    Attributes:
        task: `segmentation` (the model names the segments) or `alignment` (it was given the true transcripts).
        scores: prediction -> metric -> fraction 0..1, frames or seconds for boundary errors; a metric that no
            recording defines has no entry. `mucon.metrics` says what they are; those by index are of alignment only.
        undefined: prediction -> metric -> recordings that do not define it and are not counted.
        recall: prediction -> action -> share of its frames that are found; None for an action without a true frame.
        precision: prediction -> action -> share of the frames predicted as it that are right; None for an action
            that is never predicted.
        confusion: prediction -> `[N][N]` frames over all recordings, rows the true and columns the predicted actions
            in the order of the vocabulary. Frames of a recording with an empty prediction are in no column.
        true_frames: action -> its frames over all recordings.
        per_video: for each recording `id`, `n_frames`, whether its transcript was `cut` or `empty`, and per
            prediction the metrics (None where undefined).
        segmentations: prediction -> recording -> segmentation.
        seconds: prediction -> mean seconds for a recording; the first one, in which things are loaded and compiled,
            does not count where there are more. Not of alignment.
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

    @property
    def n_cut(self) -> int:
        """Recordings whose transcript was cut."""
        return sum(bool(row["cut"]) for row in self.per_video)

    @property
    def n_empty(self) -> int:
        """Recordings for which the end symbol came first, so that no frame has an action."""
        return sum(bool(row["empty"]) for row in self.per_video)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the segmentations, for JSON."""
        return {
            "task": self.task,
            "scores": self.scores,
            "undefined": self.undefined,
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
    checkpoint: Checkpoint,
    videos: Sequence[Video],
    *,
    device: str = "cpu",
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
    task: str = "segmentation",
    fps: float | None = None,
    training_videos: Sequence[Video] = (),
    threads: int = 1,
) -> Evaluation:
    """Predicts every recording and compares with its true segmentation.

    Args:
        checkpoint: a trained model; it stays on its device and in its mode, a copy computes.
        videos: all with lengths.
        device: where the network computes.
        predictions: which of `frames`, `segments`, `full`.
        decoding: how `full` finds its lengths; the checkpoint's choice by default.
        task: `segmentation`, or `alignment`, where the model is given the true transcripts.
        fps: frames a second of the recordings, or None: then boundary errors are in frames only.
        threads: that decode, while the network is busy with the recordings after; the result is the same.
        training_videos: only looked at where `decoding` uses what is known of them and the checkpoint has no facts.

    Raises:
        InputError: an unknown task, no recording, some without true lengths, with actions that the model does not
            know or, in alignment, with more segments than frames (all are told), or an fps that is not above 0.
    """
    problems = _problems(videos, task, checkpoint.vocabulary)
    if problems:
        raise InputError(problems)
    chosen = choose_device(device)
    used = dataclasses.replace(checkpoint, model=copy.deepcopy(checkpoint.model).to(chosen).eval())
    if (decoding or used.config.decoding).needs_training_facts and used.facts is None and training_videos:
        used = dataclasses.replace(used, facts=training_facts(used, training_videos, chosen))
    jobs = (Job(video.id, _begun(used, video, chosen, predictions, decoding, task)) for video in videos)
    found = list(decode_many(jobs, threads=threads, bunch=1))
    truths = [Segmentation.of(video.transcript, video.lengths or ()) for video in videos]
    segmentations = {name: [one.segmentations[name] for one in found] for name in predictions}
    results = {
        name: _scores(truths, predicted, checkpoint.vocabulary, task, fps) for name, predicted in segmentations.items()
    }
    actions = checkpoint.vocabulary.actions
    confusion = {name: confusion_matrix(truths, predicted, len(actions)) for name, predicted in segmentations.items()}
    true_frames = frames_per_action(truths, len(actions))
    return Evaluation(
        task=task,
        scores={name: result.values for name, result in results.items()},
        undefined={name: result.undefined for name, result in results.items()},
        recall={
            name: dict(zip(actions, recall_per_action(counts, true_frames), strict=True))
            for name, counts in confusion.items()
        },
        precision={
            name: dict(zip(actions, precision_per_action(counts), strict=True)) for name, counts in confusion.items()
        },
        confusion={name: counts.tolist() for name, counts in confusion.items()},
        true_frames=dict(zip(actions, true_frames.tolist(), strict=True)),
        per_video=[
            {
                "id": video.id,
                "n_frames": video.n_frames,
                "cut": one.cut,
                "empty": any(name != "frames" and not s.n_segments for name, s in one.segmentations.items()),
                **{name: result.per_video[index] for name, result in results.items()},
            }
            for index, (video, one) in enumerate(zip(videos, found, strict=True))
        ],
        segmentations={
            name: {video.id: one for video, one in zip(videos, predicted, strict=True)}
            for name, predicted in segmentations.items()
        },
        seconds=_mean_seconds([one.seconds for one in found]),
    )


def _mean_seconds(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    counted = found[1:] or found
    return {name: sum(one[name] for one in counted) / len(counted) for name in counted[0]}


def _problems(videos: Sequence[Video], task: str, vocabulary: Vocabulary) -> list[str]:
    if task not in TASKS:
        return [f"a task is {' or '.join(TASKS)}, not {task!r}{nearest(task, TASKS)}: choose one of these"]
    if not videos:
        return ["evaluation needs at least one recording, the list is empty: choose another split"]
    problems = []
    for video in videos:
        if video.lengths is None:
            problems.append(
                f"evaluation compares with true lengths, {video.id!r} has only a transcript: "
                "leave it out or annotate it"
            )
        elif task == "alignment":
            problems += transcript_problems(video.transcript, video.n_frames, vocabulary, repr(video.id))
        elif outside := sorted({action for action in video.transcript if not 0 <= action < vocabulary.n_actions}):
            problems.append(
                f"action ids are 0 to {vocabulary.n_actions - 1}, {video.id!r} has {outside}: correct its transcript"
            )
    return problems


def _begun(
    checkpoint: Checkpoint,
    video: Video,
    device: torch.device,
    predictions: Sequence[str],
    decoding: DecodingConfig | None,
    task: str,
) -> Callable[[], Prediction]:
    features = video.features(device)
    if task == "alignment":
        aligned = align_transcript(checkpoint, features, video.transcript, predictions=predictions, decoding=decoding)
        return lambda: aligned
    return begin(checkpoint, features, predictions=predictions, decoding=decoding)


def _scores(
    truths: Sequence[Segmentation],
    predicted: Sequence[Segmentation],
    vocabulary: Vocabulary,
    task: str,
    fps: float | None,
) -> Scores:
    found = score(truths, predicted, vocabulary.background_ids) | boundary_scores(truths, predicted, fps=fps)
    if task == "alignment":
        found |= alignment_scores(truths, predicted, vocabulary.background_ids, fps=fps)
    return found

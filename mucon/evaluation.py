"""How good a trained model is on recordings whose segmentation is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mucon.checkpoint import Checkpoint
from mucon.decoding.config import DecodingConfig
from mucon.device import choose_device
from mucon.errors import InputError
from mucon.inference import PREDICTIONS, predict
from mucon.metrics.scores import score
from mucon.segments import Segmentation
from mucon.videos import Video


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores and predictions over a set of recordings.

    Attributes:
        scores: prediction -> metric -> fraction 0..1; a metric that no recording defines has no entry.
        undefined: prediction -> metric -> recordings that do not define it and are not counted.
        per_video: for each recording `id`, `n_frames`, whether its transcript was `cut` or `empty`, and per
            prediction the metrics (None where undefined).
        segmentations: prediction -> recording -> segmentation.
    """

    scores: dict[str, dict[str, float]]
    undefined: dict[str, dict[str, int]]
    per_video: list[dict[str, Any]]
    segmentations: dict[str, dict[str, Segmentation]]

    @property
    def n_cut(self) -> int:
        """Recordings whose transcript was cut."""
        return sum(bool(row["cut"]) for row in self.per_video)

    @property
    def n_empty(self) -> int:
        """Recordings for which the end symbol came first, so that no frame has an action."""
        return sum(bool(row["empty"]) for row in self.per_video)

    def to_dict(self) -> dict[str, Any]:
        """Scores, undefined counts and the rows per recording, for JSON."""
        return {
            "scores": self.scores,
            "undefined": self.undefined,
            "cut": self.n_cut,
            "empty": self.n_empty,
            "per_video": self.per_video,
        }


def evaluate(
    checkpoint: Checkpoint,
    videos: Sequence[Video],
    *,
    device: str = "cpu",
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Evaluation:
    """Predicts every recording and compares with its true segmentation.

    Args:
        checkpoint: a trained model.
        videos: all with lengths.
        device: where the network computes.
        predictions: which of `frames`, `segments`, `full`.
        decoding: how `full` finds its lengths; the checkpoint's choice by default.

    Raises:
        InputError: no recording, or some without true lengths (all are told).
    """
    problems = [] if videos else ["evaluation needs at least one recording, the list is empty: choose another split"]
    problems += [
        f"evaluation compares with true lengths, {video.id!r} has only a transcript: leave it out or annotate it"
        for video in videos
        if video.lengths is None
    ]
    if problems:
        raise InputError(problems)
    chosen = choose_device(device)
    checkpoint.model.to(chosen).eval()
    found = [
        predict(checkpoint, video.features(chosen), predictions=predictions, decoding=decoding) for video in videos
    ]
    truths = [Segmentation.of(video.transcript, video.lengths or ()) for video in videos]
    rows: list[dict[str, Any]] = [
        {
            "id": video.id,
            "n_frames": video.n_frames,
            "cut": one.cut,
            "empty": any(name != "frames" and not s.n_segments for name, s in one.segmentations.items()),
        }
        for video, one in zip(videos, found, strict=True)
    ]
    scores, undefined = {}, {}
    for name in predictions:
        result = score(truths, [one.segmentations[name] for one in found], checkpoint.vocabulary.background_ids)
        scores[name], undefined[name] = result.values, result.undefined
        for row, values in zip(rows, result.per_video, strict=True):
            row[name] = values
    segmentations = {
        name: {video.id: one.segmentations[name] for video, one in zip(videos, found, strict=True)}
        for name in predictions
    }
    return Evaluation(scores, undefined, rows, segmentations)

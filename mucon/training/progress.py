"""Scores of a partly trained network on a few of its training videos."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from torch import nn

from mucon.metrics.scores import score
from mucon.segments import Segmentation
from mucon.videos import Video


def videos_to_score(videos: Sequence[Video], at_most: int, seed: int) -> list[Video]:
    """Up to `at_most` of the training videos with known lengths, the same in each epoch."""
    return drawn([video for video in videos if video.lengths is not None], at_most, seed)


def drawn(videos: Sequence[Video], at_most: int, seed: int) -> list[Video]:
    """Up to `at_most` of the videos in their order, the same for the same seed."""
    order = np.random.default_rng([seed, 0x5C0]).permutation(len(videos))
    return [videos[i] for i in sorted(order[:at_most])]


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts the network into evaluation mode, and back into its mode afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def progress_scores(
    videos: Sequence[Video],
    predict: Callable[[Video], Mapping[str, Segmentation]],
    metrics: Iterable[tuple[str, str]],
    background_ids: Sequence[int],
) -> dict[str, float]:
    """Scores under names such as `full.mof`; empty without annotated videos.

    Args:
        videos: the videos to score.
        predict: returns a video's segmentations by name of the prediction.
        metrics: prediction and metric of each score; a metric that no video defines is left out.
        background_ids: ids of the background actions.
    """
    truths = [truth for video in videos if (truth := video.segmentation) is not None]
    if not truths:
        return {}
    predicted = [predict(video) for video in videos]
    scores = {
        name: score(truths, [segmentations[name] for segmentations in predicted], background_ids).values
        for name in dict.fromkeys(name for name, _ in metrics)
    }
    return {f"{name}.{metric}": scores[name][metric] for name, metric in metrics if metric in scores[name]}

"""Labels that a trained model of any method predicts, for training without the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

import torch

from mucon.arrays import Ints
from mucon.checkpoint_files import STATE, method_of, of_run
from mucon.device import cpu_threads
from mucon.errors import InputError, Problem
from mucon.identity.fingerprint import digest
from mucon.method import Predictor, training_of
from mucon.methods.table import method_named
from mucon.videos import Video, check_same_data
from mucon.vocabulary import Vocabulary

SETTING = "training.labels_from"


def predicted_labels(
    run: str, videos: Sequence[Video], vocabulary: Vocabulary, dim: int, device: torch.device
) -> list[Ints]:
    """The labels `[T]` of each video as a model predicts them, by the prediction that its method is known for.

    They follow the transcript of the video if the model can align one. The true lengths are not used.

    Args:
        run: folder of a run, a trial or a checkpoint.
        videos: with transcripts.
        vocabulary: actions of the videos.
        dim: D of their features.
        device: device of the model.

    Raises:
        InputError: no trained model there, a model for other data, or one problem per video without a prediction.
    """
    predictor = _load(of_run(Path(run)), device)
    check_same_data(predictor.vocabulary, predictor.dim, vocabulary, dim)
    labels: list[Ints] = []
    problems = []
    with cpu_threads(training_of(predictor.config).threads):
        used = predictor.prepared(videos)
        for video in videos:
            found = _predicted(used, video)
            if isinstance(found, Problem):
                problems.append(found)
            else:
                labels.append(found)
    if problems:
        raise InputError(problems)
    return labels


def teacher_digest(run: str) -> str:
    """Digest of all that determines the predictions of a model: its weights, and its choices of decoding.

    Raises:
        InputError: no trained model there.
    """
    folder = of_run(Path(run).absolute())
    state = folder / STATE
    return _digest(folder, state.stat().st_mtime_ns if state.exists() else 0)


@cache
def _digest(folder: Path, modified: int) -> str:
    """All cells of a sweep share the call; a rewritten checkpoint is read again."""
    predictor = _load(folder, torch.device("cpu"))
    choices = method_named(predictor.method).decoding(predictor.config)
    return digest({"weights": predictor.weights_sha256(), "decoding": None if choices is None else asdict(choices)})


def _load(folder: Path, device: torch.device) -> Predictor:
    predictor = method_named(method_of(folder)).load(folder, device)
    if not predictor.progress.finished:
        message, hint = "its training has not finished", "finish it first"
        raise InputError(Problem(rule="missing", place=f"{SETTING}: {folder}", message=message, hint=hint))
    return predictor


def _predicted(predictor: Predictor, video: Video) -> Ints | Problem:
    features, names = video.features(predictor.device), (predictor.main,)
    if "alignment" in predictor.tasks:
        found = predictor.align(features, video.transcript, predictions=names)
    else:
        found = predictor.begin(features, predictions=names)()
    segmentation = found.segmentations.get(predictor.main)
    if segmentation is not None and segmentation.n_segments:
        return segmentation.to_frame_labels()
    reason = found.undefined[predictor.main].line if predictor.main in found.undefined else "an empty transcript"
    message = f"the model predicts no labels for it: {reason}"
    return Problem(rule="missing", place=f"{SETTING}: {video.id}", message=message, hint="leave the recording out")

"""The three predictions for a recording: frames (MuCon-Y), segments (MuCon-S) and full (MuCon-full).

Two tasks: in segmentation the network names the segments, in alignment their transcript is given.

| prediction | segmentation | alignment |
|---|---|---|
| frames | likeliest action of each frame | given transcript, lengths that fit the frames best |
| segments | named segments with their lengths | given transcript with the segment branch's lengths for it |
| full | named segments, lengths that fit both best | given transcript, lengths that fit both best |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mucon.checkpoint import Checkpoint
from mucon.decoding.config import DecodingConfig
from mucon.decoding.rounding import largest_remainder
from mucon.errors import InputError
from mucon.inference.fusion import align, best_candidate, best_training_transcript, candidates_of, evidence, frames_of
from mucon.segments import Segmentation
from mucon.vocabulary import Vocabulary

PREDICTIONS = ("frames", "segments", "full")
"""Names of the predictions."""
TASKS = ("segmentation", "alignment")
"""Names of the tasks: without and with the transcript."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one recording.

    Attributes:
        segmentations: by name of the prediction. An empty transcript (the end symbol came first) gives an empty
            segmentation for `segments` and `full`: no frame has an action.
        cut: the end symbol did not come within the step limit, or there were more segments than frames and the last
            ones were left out. Only told where the segment branch named the segments.
        seconds: by name of the prediction, what it would have taken alone, from features on the device to the
            segmentation; nothing for a task other than segmentation.
    """

    segmentations: dict[str, Segmentation]
    cut: bool
    seconds: dict[str, float] = field(default_factory=dict)


def predict(
    checkpoint: Checkpoint,
    features: Tensor,
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Prediction:
    """Segments a recording.

    Args:
        checkpoint: a trained model, in evaluation mode.
        features: `[T, D]` on the model's device, T >= 1.
        predictions: which of `frames`, `segments`, `full`.
        decoding: how `full` finds its lengths; the checkpoint's choice by default.

    Raises:
        InputError: an unknown prediction, or features of another width.

    Source: paper, section 4.8.
    """
    return begin(checkpoint, features, predictions=predictions, decoding=decoding)()


def begin(
    checkpoint: Checkpoint,
    features: Tensor,
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Callable[[], Prediction]:
    """The first half of `predict`: runs the network, and gives the call that decodes and ends it.

    That call may run in another thread, while this one goes on with the next recording.

    Raises:
        InputError: as `predict`; what decoding itself refuses is raised by the call.
    """
    _check_request(checkpoint, features, predictions)
    decoding = decoding or checkpoint.config.decoding
    model, (n_frames, n_actions) = checkpoint.model, (len(features), checkpoint.model.size.n_actions)
    watch = _Watch()
    latent, log_probs = model.encode(features)
    found: dict[str, Segmentation] = {}
    if "frames" in predictions:
        found["frames"] = Segmentation.from_frame_labels(log_probs.argmax(dim=1).cpu().numpy())
    seconds = {"frames": watch.lap()}
    naming, cut = 0.0, False
    transcript, lengths = np.zeros(0, dtype=np.int64), np.zeros(0)
    searched = decoding.transcripts == "training" or decoding.beam > 1
    if "segments" in predictions or ("full" in predictions and decoding.transcripts == "segment_branch"):
        decoded, encoded = model.name_segments(latent)
        transcript = np.asarray(decoded.transcript[:n_frames], dtype=np.int64)
        shown = "segments" in predictions or not searched
        cut = shown and (decoded.cut or len(decoded.transcript) > n_frames)
        lengths = frames_of(decoded.log_lengths[: len(transcript)], n_frames)
        naming = watch.lap()
    if "segments" in predictions:
        known = len(transcript) > 0
        found["segments"] = Segmentation(transcript, largest_remainder(lengths, n_frames) if known else transcript)
        seconds["segments"] = seconds["frames"] + naming + watch.lap()
    decode: Callable[[], Segmentation] | None = None
    if "full" in predictions:
        values = evidence(log_probs, checkpoint, decoding)
        if decoding.transcripts == "training":
            decode = partial(best_training_transcript, values, checkpoint, decoding)
        elif searched:
            named = model.likeliest_segments(encoded, decoding.beam)
            if not decoded.cut and decoded.transcript not in [one.transcript for one in named]:
                named = (*named, decoded)  # so that a beam never scores below the greedy transcript
            candidates = candidates_of(named, n_frames, n_actions, decoding)
            decode = partial(best_candidate, values, candidates, decoding)
        elif len(transcript):
            decode = partial(align, values, transcript, lengths, decoding)
        else:
            decode = partial(Segmentation.of, [], [])
        seconds["full"] = seconds["frames"] + (0.0 if decoding.transcripts == "training" else naming) + watch.lap()

    def end() -> Prediction:
        if decode is not None:
            own = _Watch()
            found["full"] = decode()
            seconds["full"] += own.lap()
        return Prediction(
            {name: found[name] for name in predictions}, cut, {name: seconds[name] for name in predictions}
        )

    return end


class _Watch:
    """Seconds between moments at which the device has given its result to the processor."""

    def __init__(self) -> None:
        self.before = time.perf_counter()

    def lap(self) -> float:
        """Since the last one."""
        before, self.before = self.before, time.perf_counter()
        return self.before - before


def align_transcript(
    checkpoint: Checkpoint,
    features: Tensor,
    transcript: Sequence[int],
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Prediction:
    """Finds where the segments of a known transcript lie: action alignment.

    `segments` has the lengths of the segment branch when it is given each true previous symbol (teacher forcing),
    rounded to the largest remainder. `full` has the best lengths for the frames and those lengths together. `frames`
    has the best lengths for the frames alone: every length is as likely as another, no length cap holds.
    Deviation: the paper gives alignment one number and does not say what MuCon-Y is there; the likeliest action of
    each frame would not follow the transcript, so the frame branch's evidence decides within the transcript.

    Args:
        checkpoint: a trained model, in evaluation mode.
        features: `[T, D]` on the model's device, T >= 1.
        transcript: `[M]` action ids, 1 <= M <= T; M may exceed the number of latent frames, and an action may stand
            twice in a row.
        predictions: which of `frames`, `segments`, `full`.
        decoding: how `full` finds its lengths; the checkpoint's choice by default.

    Returns:
        Segmentations that all have the given transcript, at least one frame a segment; never cut.

    Raises:
        InputError: an unknown prediction, features of another width, a transcript that is empty, has an id outside
            the vocabulary or more segments than there are frames, or a length cap under which it cannot fill them.

    Source: paper, section 5 (action alignment) and section 4.8.
    """
    _check_request(checkpoint, features, predictions)
    n_frames = len(features)
    problems = transcript_problems(transcript, n_frames, checkpoint.vocabulary)
    if problems:
        raise InputError(problems)
    given = np.asarray(transcript, dtype=np.int64)
    with torch.no_grad():
        outputs = checkpoint.model(features, torch.from_numpy(given).to(features.device))
        log_probs = torch.log_softmax(outputs.latent_logits, dim=1)[outputs.latent_of_frame]
    lengths = frames_of(outputs.log_lengths, n_frames)
    found: dict[str, Segmentation] = {}
    for name in predictions:
        if name == "segments":
            found[name] = Segmentation(given, largest_remainder(lengths, n_frames))
        elif name == "full":
            chosen = decoding or checkpoint.config.decoding
            found[name] = align(evidence(log_probs, checkpoint, chosen), given, lengths, chosen)
        else:
            found[name] = align(log_probs.cpu().numpy(), given, lengths, DecodingConfig(length_prior="none"))
    return Prediction(found, cut=False)


def transcript_problems(
    transcript: Sequence[int], n_frames: int, vocabulary: Vocabulary, place: str = "the recording"
) -> list[str]:
    """What is wrong with a transcript that is to be aligned, a line each; nothing where it fits.

    Args:
        transcript: `[M]` ids.
        n_frames: T of the recording.
        vocabulary: the model's.
        place: what to call the recording.

    >>> transcript_problems([0, 1], 2, Vocabulary(("a", "b")))
    []
    """
    if not len(transcript):
        return [f"an aligned transcript has at least one action, that of {place} has none: name its actions"]
    outside = sorted({int(action) for action in transcript if not 0 <= action < vocabulary.n_actions})
    problems = []
    if outside:
        problems.append(
            f"action ids are 0 to {vocabulary.n_actions - 1}, {place} has {outside}: correct its transcript"
        )
    if len(transcript) > n_frames:
        problems.append(
            f"each segment has at least one frame, {place} has {len(transcript)} segments and {n_frames} frames: "
            "correct its transcript"
        )
    return problems


def _check_request(checkpoint: Checkpoint, features: Tensor, predictions: Sequence[str]) -> None:
    unknown = [name for name in predictions if name not in PREDICTIONS]
    if unknown:
        raise InputError(f"predictions are {', '.join(PREDICTIONS)}, not {unknown[0]!r}: choose among these")
    dim = checkpoint.model.size.dim
    if features.ndim != 2 or features.shape[1] != dim or not len(features):
        hint = "; it looks transposed" if features.ndim == 2 and features.shape[0] == dim else ""
        raise InputError(
            f"the model reads features [T, {dim}], not {list(features.shape)}{hint}: give one row per frame"
        )

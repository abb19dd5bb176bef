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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mucon.checkpoint import Checkpoint, TrainingFacts
from mucon.decoding.alignment import best_lengths
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.length_priors import Flat, LengthPrior, Poisson, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.decoding.published import published_lengths
from mucon.decoding.rounding import largest_remainder
from mucon.decoding.spread_priors import Gaussian, LogNormal, NegativeBinomial
from mucon.decoding.transcripts import Candidate, best_joint, best_of_transcripts
from mucon.errors import InputError
from mucon.masks import absolute_lengths
from mucon.model import Decoded
from mucon.segments import IntArray, Segmentation
from mucon.vocabulary import Vocabulary

PREDICTIONS = ("frames", "segments", "full")
"""Names of the predictions."""
TASKS = ("segmentation", "alignment")
"""Names of the tasks: without and with the transcript."""
LEAST_SHARE = 1e-6
"""An action's prior is at least so much: one that is never seen in training is not divided by zero."""
SPREAD_PRIORS: Mapping[str, Callable[[ArrayLike, ArrayLike], LengthPrior]] = {
    "gaussian": Gaussian,
    "log_normal": LogNormal,
    "negative_binomial": NegativeBinomial,
}
PUBLISHED_LENGTH = 2000
"""The longest segment of the published program's decoder, in frames."""


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
    _check_request(checkpoint, features, predictions)
    decoding = decoding or checkpoint.config.decoding
    model, n_frames = checkpoint.model, len(features)
    watch = _Watch()
    latent, log_probs = model.encode(features)
    found: dict[str, Segmentation] = {}
    if "frames" in predictions:
        found["frames"] = Segmentation.from_frame_labels(log_probs.argmax(dim=1).cpu().numpy())
    seconds = {"frames": watch.lap()}
    naming, cut = 0.0, False
    transcript, lengths = np.zeros(0, dtype=np.int64), np.zeros(0)
    searched = decoding.transcripts == "training" or decoding.beam > 1
    if "segments" in predictions or ("full" in predictions and not searched):
        decoded = model.name_segments(latent)
        transcript = np.asarray(decoded.transcript[:n_frames], dtype=np.int64)
        cut = decoded.cut or len(decoded.transcript) > n_frames
        lengths = _frames_of(decoded.log_lengths[: len(transcript)], n_frames)
        naming = watch.lap()
    if "segments" in predictions:
        known = len(transcript) > 0
        found["segments"] = Segmentation(transcript, largest_remainder(lengths, n_frames) if known else transcript)
        seconds["segments"] = seconds["frames"] + naming + watch.lap()
    if "full" in predictions:
        if decoding.transcripts == "training":
            found["full"] = _best_training_transcript(checkpoint, log_probs, decoding)
        elif searched:
            candidates = model.likeliest_segments(latent, decoding.beam)
            found["full"] = _best_candidate(checkpoint, log_probs, candidates, decoding)
        elif len(transcript):
            found["full"] = align(evidence(log_probs, checkpoint, decoding), transcript, lengths, decoding)
        else:
            found["full"] = Segmentation.of([], [])
        seconds["full"] = seconds["frames"] + (0.0 if searched else naming) + watch.lap()
    return Prediction({name: found[name] for name in predictions}, cut, {name: seconds[name] for name in predictions})


class _Watch:
    """Seconds between moments at which the device has given its result to the processor."""

    def __init__(self) -> None:
        self.before = time.perf_counter()

    def lap(self) -> float:
        """Since the last one."""
        before, self.before = self.before, time.perf_counter()
        return self.before - before


def evidence(log_probs: Tensor, checkpoint: Checkpoint, decoding: DecodingConfig) -> NDArray[np.floating]:
    """`[T, N]`: the frames' log probabilities, less the log of each action's prior where the choices say so.

    Raises:
        InputError: the checkpoint does not know the prior.
    """
    values: NDArray[np.floating] = log_probs.cpu().numpy()
    if decoding.class_prior == "none":
        return values
    shares = np.maximum(np.asarray(_facts(checkpoint).frame_shares), LEAST_SHARE)
    divided: NDArray[np.floating] = values - np.log(shares)
    return divided


def _best_training_transcript(checkpoint: Checkpoint, log_probs: Tensor, decoding: DecodingConfig) -> Segmentation:
    facts = _facts(checkpoint)
    index, lengths, _ = best_of_transcripts(
        evidence(log_probs, checkpoint, decoding),
        _prefix_tree(facts.transcripts),
        facts.mean_lengths,
        max_length=decoding.max_length,
        beam=decoding.prefix_beam,
    )
    return Segmentation(np.asarray(facts.transcripts[index], dtype=np.int64), lengths)


def _best_candidate(
    checkpoint: Checkpoint, log_probs: Tensor, candidates: Sequence[Decoded], decoding: DecodingConfig
) -> Segmentation:
    """The beam's transcript with the highest joint score; no segment where it has only the empty one."""
    n_frames, n_actions = log_probs.shape
    usable = [one for one in candidates if 0 < len(one.transcript) <= n_frames]
    if not usable:
        return Segmentation.of([], [])
    joint = [
        Candidate(
            one.transcript,
            one.log_prob if one.log_prob is not None else 0.0,
            length_prior(
                np.asarray(one.transcript, dtype=np.int64), _frames_of(one.log_lengths, n_frames), n_actions, decoding
            ),
        )
        for one in usable
    ]
    index, lengths, _ = best_joint(evidence(log_probs, checkpoint, decoding), joint, max_length=decoding.max_length)
    return Segmentation(np.asarray(usable[index].transcript, dtype=np.int64), lengths)


@lru_cache(maxsize=8)
def _prefix_tree(transcripts: tuple[tuple[int, ...], ...]) -> PrefixTree:
    return PrefixTree.of(transcripts)


def _facts(checkpoint: Checkpoint) -> TrainingFacts:
    if checkpoint.facts is None:
        raise InputError(
            "decoding.transcripts=training and decoding.class_prior=training use what is known of the training videos, "
            "this checkpoint knows nothing of them: evaluate it with the store that it was trained on"
        )
    return checkpoint.facts


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
    lengths = _frames_of(outputs.log_lengths, n_frames)
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


def _frames_of(log_lengths: Tensor, n_frames: int) -> NDArray[np.float64]:
    """Relative log lengths `[M]` of the segment branch as real frames `[M]` that sum to T."""
    if not len(log_lengths):
        return np.zeros(0)
    frames: NDArray[np.float64] = absolute_lengths(log_lengths.double(), n_frames).cpu().numpy()
    return frames


def align(
    log_probs: NDArray[np.floating], transcript: IntArray, lengths: NDArray[np.float64], decoding: DecodingConfig
) -> Segmentation:
    """The transcript with the lengths that agree best with the frames: `full`, whatever the transcript comes from.

    Args:
        log_probs: `[T, N]`, of the frame branch.
        transcript: `[M]`, M <= T.
        lengths: `[M]` frames, real, predicted by the segment branch.
        decoding: prior on the lengths and their cap. The `published` method gives the labels that its program gives:
            their runs need not be the transcript.

    Source: paper, equations (14) and (15).
    """
    n_actions = log_probs.shape[1]
    if decoding.method == "published":
        means = _class_means(transcript, lengths, n_actions)
        cap = PUBLISHED_LENGTH if decoding.max_length is None else decoding.max_length
        labels, _, _ = published_lengths(log_probs, transcript, means, step=decoding.step, max_length=cap)
        return Segmentation.from_frame_labels(labels)
    prior = length_prior(transcript, lengths, n_actions, decoding)
    best, _ = best_lengths(log_probs, transcript, prior, max_length=decoding.max_length)
    return Segmentation(transcript, best)


def length_prior(
    transcript: IntArray, lengths: NDArray[np.float64], n_actions: int, decoding: DecodingConfig
) -> LengthPrior:
    """The prior of a transcript's lengths around the predicted ones."""
    if decoding.length_prior == "none":
        return Flat()
    if decoding.length_prior == "class":
        return PoissonPerClass(_class_means(transcript, lengths, n_actions))
    if decoding.length_prior == "segment":
        return Poisson(lengths)
    return SPREAD_PRIORS[decoding.length_prior](lengths, decoding.length_spread)


def _class_means(transcript: IntArray, lengths: NDArray[np.float64], n_actions: int) -> NDArray[np.float64]:
    """`[N]`, the mean predicted length of each action in this recording, 1 for the absent ones."""
    return class_mean_lengths([(transcript, lengths)], n_actions, fallback=1.0)

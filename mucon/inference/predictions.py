"""MuCon's predictions for a recording: frames (MuCon-Y), segments (MuCon-S) and full (MuCon-full).

In segmentation the network names the segments, in alignment their transcript is given.

| prediction | segmentation | alignment |
|---|---|---|
| frames | most likely action of each frame | given transcript, lengths that fit the frames best |
| segments | named segments with their lengths | given transcript with the segment branch's lengths for it |
| full | named segments, lengths that fit both best | given transcript, lengths that fit both best |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint import Checkpoint
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import (
    align,
    background_offset,
    best_candidate,
    best_training_transcript,
    evidence,
    known_facts,
)
from mucon.decoding.rounding import largest_remainder
from mucon.device import full_precision
from mucon.errors import InputError
from mucon.inference.alternatives import check_alternatives, ranked, with_alternatives
from mucon.inference.names import PREDICTIONS
from mucon.inference.requests import (
    TASKS,
    Prediction,
    check_request,
    likeliest_actions,
    problems_of_log_probs,
    transcript_problems,
)
from mucon.masks import absolute_lengths
from mucon.model import Decoded, MuConNetwork
from mucon.model.segment_branch import Encoded
from mucon.segments import Segmentation

__all__ = [
    "TASKS",
    "Prediction",
    "align_transcript",
    "aligned",
    "begin",
    "predict",
    "transcript_problems",
]

R = TypeVar("R")


def predict(
    checkpoint: Checkpoint,
    features: Tensor,
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Prediction:
    """Segments a recording.

    Args:
        checkpoint: a trained model in evaluation mode.
        features: `[T, D]` on the model's device, T >= 1.
        predictions: any of `frames`, `segments`, `full`.
        decoding: choices of `full`; by default those of the checkpoint.

    Raises:
        InputError: an unknown prediction, features of another shape, choices that need facts about the training videos
            that the checkpoint does not contain, or a prediction that is undefined for the recording.

    Source: paper, section 4.8.
    """
    return begin(checkpoint, features, predictions=predictions, decoding=decoding)().whole()


@full_precision()
def begin(
    checkpoint: Checkpoint,
    features: Tensor,
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
    alternatives: int = 0,
) -> Callable[[], Prediction]:
    """Runs the network, the first half of `predict`, and returns a function that decodes, the second half.

    The function may run in another thread while this one continues with the next recording. A prediction that is
    undefined for the recording is in `Prediction.undefined`.

    Args:
        checkpoint: as for `predict`.
        features: as for `predict`.
        predictions: as for `predict`.
        decoding: as for `predict`.
        alternatives: most alternatives to `full`, from a beam that is at least wide enough for them; they leave `full`
            as it is.

    Raises:
        InputError: as `predict`, except for undefined predictions; or alternatives without `full` or without a beam.
    """
    check_request(features, checkpoint.model.size.dim, predictions, PREDICTIONS)
    decoding = decoding or checkpoint.config.decoding
    model, named_by_network = checkpoint.model, decoding.transcripts == "segment_branch"
    background, offset = checkpoint.vocabulary.background_ids, background_offset(checkpoint.facts, decoding)
    seen, seconds = _timed(partial(_see, model, features, background, offset))
    begun: dict[str, _Begun] = {}
    check_alternatives(alternatives, "full" if "full" in predictions else predictions[0], decoding)
    problems = problems_of_log_probs(seen.log_probs.cpu().numpy())
    if problems:
        return lambda: Prediction({}, cut=False, undefined=dict.fromkeys(predictions, InputError(problems)))
    if "frames" in predictions:
        frames, own = _timed(partial(_now, partial(likeliest_actions, seen.log_probs)))
        begun["frames"] = _Begun(frames, seconds + own)
    if "segments" in predictions or ("full" in predictions and named_by_network):
        named, naming = _timed(partial(_name, model, seen))
        if "segments" in predictions:
            segments, own = _timed(partial(_now, partial(_segments, named, seen)))
            begun["segments"] = _Begun(segments, seconds + naming + own, named.cut)
        if "full" in predictions and named_by_network:
            end, own = _timed(partial(_begin_full, checkpoint, seen, named, decoding))
            begun["full"] = _Begun(end, seconds + naming + own, named.cut and decoding.beam == 1)
    if "full" in predictions and not named_by_network:
        end, own = _timed(partial(_begin_full_of_training, checkpoint, seen, decoding))
        begun["full"] = _Begun(end, seconds + own)
    end_all = partial(_end, {name: begun[name] for name in predictions}, seen)
    if not alternatives:
        return end_all
    beam = _beam(checkpoint, named, max(decoding.beam, alternatives + 1), len(features))
    values = evidence(seen.log_probs.cpu().numpy(), checkpoint.facts, decoding)
    return lambda: with_alternatives(end_all(), ranked(values, beam, decoding, checkpoint.facts), alternatives)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A prediction after the network's part.

    Attributes:
        end: decodes; raises `InputError` if the prediction is undefined.
        seconds: time spent so far on what this prediction needs.
        cut: see `Prediction`.
    """

    end: Callable[[], Segmentation]
    seconds: float
    cut: bool = False


class _Seen(NamedTuple):
    """Outputs of backbone and frame branch.

    Attributes:
        latent: `[T', D']`.
        log_probs: `[T, N]`.
    """

    latent: Tensor
    log_probs: Tensor


class _Named(NamedTuple):
    """Outputs of the segment branch.

    Attributes:
        decoded: the greedy transcript.
        encoded: input of its decoder.
        transcript: `[M]`, the greedy transcript without segments beyond T.
        lengths: `[M]` real frames that sum to T.
        cut: see `Prediction`.
    """

    decoded: Decoded
    encoded: Encoded
    transcript: NDArray[np.int64]
    lengths: NDArray[np.float64]
    cut: bool


def frames_of(log_lengths: Tensor, n_frames: int) -> NDArray[np.float64]:
    """Converts relative log lengths `[M]` of the segment branch to real frames `[M]` that sum to T."""
    if not len(log_lengths):
        return np.zeros(0)
    frames: NDArray[np.float64] = absolute_lengths(log_lengths.double(), n_frames).cpu().numpy()
    return frames


def _timed(compute: Callable[[], R]) -> tuple[R, float]:
    """The result of a function and its seconds."""
    started = time.perf_counter()
    result = compute()
    return result, time.perf_counter() - started


def _now(compute: Callable[[], Segmentation]) -> Callable[[], Segmentation]:
    """Computes a segmentation at once; the returned function returns it, or raises the error."""
    outcome: Segmentation | InputError
    try:
        outcome = compute()
    except InputError as error:
        outcome = error

    def end() -> Segmentation:
        if isinstance(outcome, InputError):
            raise outcome
        return outcome

    return end


def _see(model: MuConNetwork, features: Tensor, background: Sequence[int], offset: float) -> _Seen:
    latent, log_probs = model.encode(features)
    return _Seen(latent, _lowered(log_probs, background, offset))


def _lowered(log_probs: Tensor, background: Sequence[int], offset: float) -> Tensor:
    """`mucon.decoding.background.lowered` on the device of the network."""
    if not offset or not background:
        return log_probs
    values = log_probs.clone()
    values[:, list(background)] -= offset
    return torch.log_softmax(values, dim=1)


def _name(model: MuConNetwork, seen: _Seen) -> _Named:
    n_frames = len(seen.log_probs)
    decoded, encoded = model.name_segments(seen.latent)
    transcript = np.asarray(decoded.transcript[:n_frames], dtype=np.int64)
    lengths = frames_of(decoded.log_lengths[: len(transcript)], n_frames)
    return _Named(decoded, encoded, transcript, lengths, decoded.cut or len(decoded.transcript) > n_frames)


def _segments(named: _Named, seen: _Seen) -> Segmentation:
    if not len(named.transcript):
        return Segmentation.of([], [])
    return Segmentation(named.transcript, largest_remainder(named.lengths, len(seen.log_probs)))


def _begin_full(
    checkpoint: Checkpoint, seen: _Seen, named: _Named, decoding: DecodingConfig
) -> Callable[[], Segmentation]:
    """`full` with the segment branch's transcripts."""
    values = evidence(seen.log_probs.cpu().numpy(), checkpoint.facts, decoding)
    if decoding.beam > 1:
        beam = _beam(checkpoint, named, decoding.beam, len(values))
        return partial(best_candidate, values, beam, decoding, checkpoint.facts)
    if not len(named.transcript):
        return partial(Segmentation.of, [], [])
    return partial(align, values, named.transcript, named.lengths, decoding, checkpoint.facts)


def _beam(
    checkpoint: Checkpoint, named: _Named, width: int, n_frames: int
) -> list[tuple[Decoded, NDArray[np.float64]]]:
    """The transcripts of a beam with their predicted lengths in frames."""
    transcripts = checkpoint.model.likeliest_segments(named.encoded, width)
    if not named.decoded.cut and named.decoded.transcript not in [one.transcript for one in transcripts]:
        transcripts = (*transcripts, named.decoded)  # so that a beam never scores below the greedy transcript
    return [(one, frames_of(one.log_lengths, n_frames)) for one in transcripts]


def _begin_full_of_training(
    checkpoint: Checkpoint, seen: _Seen, decoding: DecodingConfig
) -> Callable[[], Segmentation]:
    """`full` with the transcripts of the training videos."""
    values = evidence(seen.log_probs.cpu().numpy(), checkpoint.facts, decoding)
    return partial(best_training_transcript, values, known_facts(checkpoint.facts, "decoding.transcripts"), decoding)


def _end(begun: Mapping[str, _Begun], seen: _Seen) -> Prediction:
    return _timed_prediction(begun).with_confidences(seen.log_probs.cpu().numpy())


def _timed_prediction(begun: Mapping[str, _Begun]) -> Prediction:
    """Ends all predictions, with the seconds of each."""
    seconds: dict[str, float] = {}

    def timed(name: str, one: _Begun) -> Segmentation:
        segmentation, own = _timed(one.end)
        seconds[name] = one.seconds + own
        return segmentation

    ends = {name: partial(timed, name, one) for name, one in begun.items()}
    prediction = Prediction.of(ends, cut=any(one.cut for one in begun.values()))
    return replace(prediction, seconds=seconds)


def align_transcript(
    checkpoint: Checkpoint,
    features: Tensor,
    transcript: Sequence[int],
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Prediction:
    """Aligns a known transcript to a recording: action alignment.

    `segments` has the lengths of the segment branch when it is given each true previous symbol (teacher forcing),
    rounded to the largest remainder. `full` has the best lengths for the frames and those lengths together. `frames`
    has the best lengths for the frames alone: all lengths are equally likely, and no length cap applies.
    Deviation: the paper gives alignment one number and does not define MuCon-Y there; the most likely action of each
    frame would not follow the transcript, so the frame branch's evidence decides within the transcript.

    Args:
        checkpoint: a trained model in evaluation mode.
        features: `[T, D]` on the model's device, T >= 1.
        transcript: `[M]` action ids, 1 <= M <= T; M may exceed the number of latent frames, and an action may occur
            twice in a row.
        predictions: any of `frames`, `segments`, `full`.
        decoding: choices of `full`; by default those of the checkpoint.

    Returns:
        Segmentations with the given transcript and at least one frame per segment; never cut.

    Raises:
        InputError: an unknown prediction, features of another shape, a transcript that is empty, contains unknown ids
            or has more segments than frames, or a prediction that is undefined for the recording, such as one with a
            length cap with which the transcript cannot fill the frames.

    Source: paper, section 5 (action alignment) and section 4.8.
    """
    return aligned(checkpoint, features, transcript, predictions=predictions, decoding=decoding).whole()


@full_precision()
def aligned(
    checkpoint: Checkpoint,
    features: Tensor,
    transcript: Sequence[int],
    *,
    predictions: Sequence[str] = PREDICTIONS,
    decoding: DecodingConfig | None = None,
) -> Prediction:
    """Like `align_transcript`; a prediction that is undefined for the recording is in `Prediction.undefined`.

    All predictions are undefined for a transcript that cannot be aligned.

    Raises:
        InputError: an unknown prediction, features of another shape, or choices that need facts about the training
            videos that the checkpoint does not contain.
    """
    check_request(features, checkpoint.model.size.dim, predictions, PREDICTIONS)
    n_frames = len(features)
    problems = transcript_problems(transcript, n_frames, checkpoint.vocabulary)
    if problems:
        return Prediction({}, cut=False, undefined=dict.fromkeys(predictions, InputError(problems)))
    given = np.asarray(transcript, dtype=np.int64)
    chosen = decoding or checkpoint.config.decoding
    background, offset = checkpoint.vocabulary.background_ids, background_offset(checkpoint.facts, chosen)
    see = partial(see_given, checkpoint.model, features, given, background, offset)
    (values, lengths), seconds = _timed(see)
    problems = problems_of_log_probs(values)
    if problems:
        return Prediction({}, cut=False, undefined=dict.fromkeys(predictions, InputError(problems)))
    fused = evidence(values, checkpoint.facts, chosen) if "full" in predictions else values
    ends: dict[str, Callable[[], Segmentation]] = {
        "frames": lambda: align(values, given, lengths, DecodingConfig(length_prior="none")),
        "segments": lambda: Segmentation(given, largest_remainder(lengths, n_frames)),
        "full": lambda: align(fused, given, lengths, chosen, checkpoint.facts),
    }
    return _timed_prediction({name: _Begun(ends[name], seconds) for name in predictions}).with_confidences(values)


@torch.no_grad()
def see_given(
    model: MuConNetwork,
    features: Tensor,
    transcript: NDArray[np.int64],
    background: Sequence[int] = (),
    offset: float = 0.0,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Log-probabilities `[T, N]`, and the lengths of a given transcript `[M]` in real frames.

    Args:
        model: in evaluation mode.
        features: `[T, D]` on the model's device.
        transcript: `[M]`.
        background: ids from whose log probabilities the offset is taken off.
        offset: nats.
    """
    outputs = model(features, torch.from_numpy(transcript).to(features.device))
    log_probs = torch.log_softmax(outputs.latent_logits, dim=1)[outputs.latent_of_frame]
    values: NDArray[np.float32] = _lowered(log_probs, background, offset).cpu().numpy()
    return values, frames_of(outputs.log_lengths, len(features))

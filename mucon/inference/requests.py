"""What all methods share: a prediction as a value, the tasks, and the checks of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from mucon.errors import InputError, Problem
from mucon.segments import Segmentation
from mucon.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

TASKS = ("segmentation", "alignment")
"""Tasks: the model names the segments, or their transcript is given."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another segmentation of a recording with its score.

    Attributes:
        segmentation: T frames, with another transcript than the prediction.
        score: joint log score: log probability of the transcript, plus log probabilities of the actions in all frames,
            plus log prior of the lengths. It is not normalised: differences between the segmentations of one recording
            mean something, values alone do not.
    """

    segmentation: Segmentation
    score: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Segmentations of one recording.

    Attributes:
        segmentations: by name of the prediction, without the undefined ones. An empty segmentation assigns no action
            to any frame (the model predicts an empty transcript).
        cut: the model did not end its transcript within the step limit, or predicted more segments than frames, and
            the last segments were dropped. Always false if the transcript does not come from the model.
        seconds: by name of the prediction, the time that it takes alone, from features on the device to the
            segmentation.
        undefined: by name of the prediction, the reason for which the recording has none, such as a length cap with
            which its segments cannot fill it.
        confidences: by name of the prediction, the confidence of each segment, see `mean_probabilities`.
        score: joint log score of `full`, see `Alternative`; None unless alternatives were requested.
        alternatives: the next best segmentations instead of `full`, the best first; empty unless requested.
    """

    segmentations: dict[str, Segmentation]
    cut: bool
    seconds: dict[str, float] = field(default_factory=dict)
    undefined: dict[str, InputError] = field(default_factory=dict)
    confidences: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    score: float | None = None
    alternatives: tuple[Alternative, ...] = ()

    @classmethod
    def of(cls, ends: Mapping[str, Callable[[], Segmentation]], *, cut: bool = False) -> Self:
        """Computes the segmentations, by name of the prediction; one that raises `InputError` is undefined."""
        segmentations: dict[str, Segmentation] = {}
        undefined: dict[str, InputError] = {}
        for name, end in ends.items():
            try:
                segmentations[name] = end()
            except InputError as error:
                undefined[name] = error.with_traceback(None)  # a traceback keeps arrays in memory
        return cls(segmentations, cut, undefined=undefined)

    def with_confidences(self, log_probs: NDArray[np.floating]) -> Self:
        """Itself, with the confidences of all segments from the log probabilities `[T, N]` of the frame branch."""
        confidences = {name: mean_probabilities(log_probs, one) for name, one in self.segmentations.items()}
        return replace(self, confidences=confidences)

    def whole(self) -> Self:
        """Itself, with all predictions.

        Raises:
            InputError: a prediction is undefined for the recording.
        """
        if self.undefined:
            distinct = dict.fromkeys(self.undefined.values())  # predictions may share their reason
            raise InputError(problem for error in distinct for problem in error.problems)
        return self


def mean_probabilities(log_probs: NDArray[np.floating], segmentation: Segmentation) -> tuple[float | None, ...]:
    """The confidence of each segment: the posterior probability of its action, averaged over its frames.

    The confidence of a segment with action `a` and the frames `s` to `e - 1` is the mean of `p(a | x, t)` over them,
    where `p(. | x, t)` is the distribution of the frame branch over the N actions in frame t. It is a number from 0 to
    1, whatever the length of the segment; how the transcript was found does not affect it.

    Source: the distribution is that of the frame branch (paper, section 4.2); the paper does not define a confidence.

    Args:
        log_probs: `[T, N]` of the frame branch.
        segmentation: segments of together T frames, or none.

    Returns:
        One number per segment; None for a segment without frames.

    >>> log_probs = np.log([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    >>> mean_probabilities(log_probs, Segmentation.of([0, 1], [2, 1]))
    (0.5, 0.5)
    """
    return tuple(
        float(np.exp(log_probs[start:stop, action]).mean(dtype=np.float64)) if stop > start else None
        for action, start, stop in segmentation.spans()
    )


def likeliest_actions(log_probs: Tensor) -> Segmentation:
    """The most likely action of each frame.

    Args:
        log_probs: `[T, N]`.

    Raises:
        InputError: a log probability is NaN.
    """
    problems = problems_of_log_probs(log_probs.cpu().numpy())
    if problems:
        raise InputError(problems)
    return Segmentation.from_frame_labels(log_probs.argmax(dim=1).cpu().numpy())


def problems_of_log_probs(log_probs: NDArray[np.floating]) -> list[Problem]:
    """One problem if log probabilities `[T, N]` are NaN.

    >>> problems_of_log_probs(np.zeros((2, 3)))
    []
    """
    bad = int(np.isnan(log_probs).any(axis=1).sum())
    message = f"the network computes NaN in {bad} frames"
    hint = "check features and weights for very large values"
    return [Problem(rule="range", place="frame_log_probs", value=bad, message=message, hint=hint)] if bad else []


def check_request(features: Tensor, dim: int, predictions: Sequence[str], available: Sequence[str]) -> None:
    """Checks the arguments of a prediction.

    Args:
        features: `[T, dim]`, T >= 1.
        dim: D that the model expects.
        predictions: requested names.
        available: names that the method offers.

    Raises:
        InputError: an unknown prediction, or features of another shape.
    """
    check_predictions(predictions, available)
    if features.ndim != 2 or features.shape[1] != dim or not len(features):
        transposed = features.ndim == 2 and features.shape[0] == dim
        raise InputError(
            Problem(
                rule="shape",
                place="features",
                value=list(features.shape),
                expected=f"[T, {dim}] with T >= 1",
                hint="the array looks transposed" if transposed else "",
            )
        )


def check_predictions(predictions: Sequence[str], available: Sequence[str]) -> None:
    """Checks the names of predictions.

    Raises:
        InputError: a name that the method does not offer.
    """
    problems = [
        Problem(rule="unknown", place="prediction", value=name, expected=" or ".join(available))
        for name in dict.fromkeys(predictions)
        if name not in available
    ]
    if problems:
        raise InputError(problems)


def transcript_problems(
    transcript: Sequence[int], n_frames: int, vocabulary: Vocabulary, place: str = "transcript"
) -> list[Problem]:
    """The problems of a transcript for alignment.

    Args:
        transcript: `[M]` action ids.
        n_frames: T of the recording.
        vocabulary: the actions of the model.
        place: place of the problems.

    >>> transcript_problems([0, 1], 2, Vocabulary(("a", "b")))
    []
    """
    if not len(transcript):
        return [Problem(rule="missing", place=place, expected="a transcript of at least one action")]
    problems = action_problems(transcript, vocabulary, place)
    if len(transcript) > n_frames:
        message = f"{len(transcript)} segments in {n_frames} frames; each segment has at least one frame"
        problems.append(Problem(rule="range", place=place, value=len(transcript), message=message))
    return problems


def unsupported_task(method: str, task: str) -> Problem:
    """The problem of a task that a method does not support."""
    return Problem(rule="unsupported", place="task", value=task, message=f"the method {method} does not support {task}")


def action_problems(transcript: Sequence[int], vocabulary: Vocabulary, place: str) -> list[Problem]:
    """One problem if a transcript contains ids that are not in the vocabulary."""
    outside = sorted({int(action) for action in transcript if not 0 <= action < vocabulary.n_actions})
    expected = f"action ids from 0 to {vocabulary.n_actions - 1}"
    return [Problem(rule="range", place=place, value=outside, expected=expected)] if outside else []

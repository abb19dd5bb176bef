"""The predictor of methods whose evidence is a distribution of each frame.

| prediction | segmentation | alignment |
|---|---|---|
| frames | most likely action of each frame | given transcript, lengths that fit the frames best |
| full | training transcript and lengths with the highest score | given transcript, lengths with the highest score |

The score is the sum over the frames of log posterior minus log share of the action in the training videos, plus the
Poisson log probability of each length about the action's mean length there.
Source: Richard, Kuehne, Iqbal and Gall, "NeuralNetwork-Viterbi", CVPR 2018, section 3, which approximates the search.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint_files import Progress
from mucon.decoding.alignment import best_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import TrainingFacts, best_training_transcript, evidence, known_facts
from mucon.decoding.length_priors import Flat, PoissonPerClass
from mucon.device import full_precision
from mucon.errors import InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.identity.weights import weights_sha256
from mucon.inference.requests import (
    TASKS,
    Prediction,
    check_request,
    problems_of_log_probs,
    transcript_problems,
)
from mucon.methods.frames.networks import FrameClassifier
from mucon.methods.weak.config import WeakConfig
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

PREDICTIONS = ("frames", "full")
DECODING = DecodingConfig(transcripts="training", class_prior="training")


@dataclass(frozen=True, slots=True)
class EvidencePredictor:
    """A `mucon.method.Predictor` whose predictions follow from log posteriors of the frames and from training facts.

    Attributes:
        main: the prediction that the method is known for.
        classifier: the network in evaluation mode.
        facts: None before training finishes; `full` then has no value.
    """

    method: str
    main: str
    classifier: FrameClassifier
    config: WeakConfig
    vocabulary: Vocabulary
    dim: int
    progress: Progress
    trained_on: TrainedOn | None = None
    facts: TrainingFacts | None = None

    predictions: ClassVar[tuple[str, ...]] = PREDICTIONS
    tasks: ClassVar[tuple[str, ...]] = TASKS

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.classifier.parameters()).device

    def weights_sha256(self) -> str:
        """Digest of the weights."""
        return weights_sha256(self.classifier)

    def to(self, device: torch.device) -> Self:
        """A copy on a device, in evaluation mode."""
        classifier = copy.deepcopy(self.classifier).to(device).eval()
        return dataclasses.replace(self, classifier=classifier)

    def prepared(self, training_videos: Sequence[Video], decoding: DecodingConfig | None = None) -> Self:
        """Itself: the checkpoint contains the facts."""
        return self

    def outputs(self, features: Tensor) -> Tensor:
        """What the network computes for the predictions: log posteriors `[T, N]` of features `[T, D]`."""
        return self.classifier.frame_log_probs(features)

    def posteriors(self, outputs: NDArray[np.floating]) -> NDArray[np.floating]:
        """Log posteriors `[T, N]` from the outputs, for the confidences."""
        return outputs

    def segmented(self, name: str, log_probs: NDArray[np.floating]) -> Segmentation:
        """A prediction for log posteriors `[T, N]`.

        Raises:
            InputError: the recording has no such prediction.
        """
        if name == "frames":
            return Segmentation.from_frame_labels(log_probs.argmax(axis=1))
        facts = known_facts(self.facts, "training facts")
        return best_training_transcript(evidence(log_probs, facts, DECODING), facts, DECODING)

    def aligned(self, name: str, log_probs: NDArray[np.floating], transcript: Sequence[int]) -> Segmentation:
        """A prediction with a given transcript `[M]`, M <= T, for log posteriors `[T, N]`.

        Raises:
            InputError: the recording has no such prediction.
        """
        if name == "frames":
            lengths, _ = best_lengths(log_probs, transcript, Flat())
        else:
            facts = known_facts(self.facts, "training facts")
            divided = evidence(log_probs, facts, DECODING)
            lengths, _ = best_lengths(divided, transcript, PoissonPerClass(facts.mean_lengths))
        return Segmentation.of(transcript, lengths)

    def begin(
        self,
        features: Tensor,
        *,
        predictions: Sequence[str] = PREDICTIONS,
        decoding: DecodingConfig | None = None,
        alternatives: int = 0,
    ) -> Callable[[], Prediction]:
        """Runs the network and returns the function that decodes."""
        self._check_choices(decoding, alternatives)
        outputs, seen = self._see(features, predictions)
        ends = {name: partial(self.segmented, name, outputs) for name in predictions}
        return partial(_end, ends, self.posteriors(outputs), seen)

    def align(
        self,
        features: Tensor,
        transcript: Sequence[int],
        *,
        predictions: Sequence[str] = PREDICTIONS,
        decoding: DecodingConfig | None = None,
    ) -> Prediction:
        """Aligns a known transcript, see `Predictor.align`."""
        self._check_choices(decoding, 0)
        problems = transcript_problems(transcript, len(features), self.vocabulary)
        if problems:
            raise InputError(problems)
        outputs, seen = self._see(features, predictions)
        ends = {name: partial(self.aligned, name, outputs, transcript) for name in predictions}
        return _end(ends, self.posteriors(outputs), seen)

    def _check_choices(self, decoding: DecodingConfig | None, alternatives: int) -> None:
        if alternatives:
            message = f"the method {self.method} has no alternatives"
            raise InputError(Problem(rule="unsupported", place="alternatives", value=alternatives, message=message))
        if decoding is not None:
            message = f"the method {self.method} has no decoding choices"
            raise InputError(Problem(rule="unsupported", place="decoding", message=message))

    @full_precision()
    def _see(self, features: Tensor, predictions: Sequence[str]) -> tuple[NDArray[np.float32], float]:
        """The outputs on the CPU and the seconds of the network."""
        check_request(features, self.dim, predictions, self.predictions)
        started = time.perf_counter()
        outputs: NDArray[np.float32] = self.outputs(features).cpu().numpy()
        return outputs, time.perf_counter() - started


def _end(ends: Mapping[str, Callable[[], Segmentation]], log_probs: NDArray[np.floating], seen: float) -> Prediction:
    """Decodes all predictions, with the seconds of each."""
    problems = problems_of_log_probs(log_probs)
    if problems:
        return Prediction({}, cut=False, undefined=dict.fromkeys(ends, InputError(problems)))
    seconds: dict[str, float] = {}

    def timed(name: str) -> Segmentation:
        started = time.perf_counter()
        segmentation = ends[name]()
        seconds[name] = seen + time.perf_counter() - started
        return segmentation

    prediction = Prediction.of({name: partial(timed, name) for name in ends})
    return dataclasses.replace(prediction, seconds=seconds).with_confidences(log_probs)

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

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mucon.decoding.alignment import best_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import TrainingFacts, best_training_transcript, evidence, known_facts
from mucon.decoding.length_priors import Flat, PoissonPerClass
from mucon.device import full_precision
from mucon.errors import InputError
from mucon.inference.requests import (
    TASKS,
    Prediction,
    check_request,
    problems_of_log_probs,
    transcript_problems,
)
from mucon.methods.frames.network_predictor import NetworkPredictor
from mucon.segments import Segmentation

PREDICTIONS = ("frames", "full")
DECODING = DecodingConfig(transcripts="training", class_prior="training")


@dataclass(frozen=True, slots=True)
class EvidencePredictor(NetworkPredictor):
    """A `mucon.method.Predictor` whose predictions follow from log posteriors of the frames and from training facts.

    Attributes:
        main: the prediction that the method is known for.
        facts: None before training finishes; `full` then has no value.
    """

    main: str = "full"
    facts: TrainingFacts | None = None

    predictions: ClassVar[tuple[str, ...]] = PREDICTIONS
    tasks: ClassVar[tuple[str, ...]] = TASKS

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
        self.check_choices(decoding, alternatives)
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
        self.check_choices(decoding, 0)
        problems = transcript_problems(transcript, len(features), self.vocabulary)
        if problems:
            raise InputError(problems)
        outputs, seen = self._see(features, predictions)
        ends = {name: partial(self.aligned, name, outputs, transcript) for name in predictions}
        return _end(ends, self.posteriors(outputs), seen)

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

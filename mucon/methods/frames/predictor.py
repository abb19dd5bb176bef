"""A predictor of methods that classify frames and nothing else."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from mucon.checkpoint_files import Progress
from mucon.configuration import Config
from mucon.decoding.config import DecodingConfig
from mucon.device import full_precision
from mucon.errors import InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.identity.weights import weights_sha256
from mucon.inference.requests import Prediction, check_request, likeliest_actions, unsupported_task
from mucon.methods.frames.networks import FrameClassifier
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

PREDICTIONS = ("frames",)
MAIN = "frames"
TASKS = ("segmentation",)


@dataclass(frozen=True, slots=True)
class FramePredictor:
    """A `mucon.method.Predictor` whose only prediction is the most likely action of each frame.

    Attributes:
        classifier: the network in evaluation mode.
    """

    method: str
    classifier: FrameClassifier
    config: Config
    vocabulary: Vocabulary
    dim: int
    progress: Progress
    trained_on: TrainedOn | None = None

    predictions: ClassVar[tuple[str, ...]] = PREDICTIONS
    main: ClassVar[str] = MAIN
    tasks: ClassVar[tuple[str, ...]] = TASKS

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.classifier.parameters()).device

    def weights_sha256(self) -> str:
        """Digest of the weights."""
        return weights_sha256(self.classifier)

    def to(self, device: torch.device) -> FramePredictor:
        """A copy on a device, in evaluation mode."""
        classifier = copy.deepcopy(self.classifier).to(device).eval()
        return dataclasses.replace(self, classifier=classifier)

    def prepared(self, training_videos: Sequence[Video], decoding: DecodingConfig | None = None) -> FramePredictor:
        """Itself: no prediction needs facts about the training videos."""
        return self

    @full_precision()
    def begin(
        self,
        features: Tensor,
        *,
        predictions: Sequence[str] = PREDICTIONS,
        decoding: DecodingConfig | None = None,
        alternatives: int = 0,
    ) -> Callable[[], Prediction]:
        """Classifies the frames; the returned function has nothing left to compute."""
        check_request(features, self.dim, predictions, PREDICTIONS)
        if alternatives:
            message = f"the method {self.method} has no alternatives"
            raise InputError(Problem(rule="unsupported", place="alternatives", value=alternatives, message=message))
        if decoding is not None:
            message = f"the method {self.method} has no decoding choices"
            raise InputError(Problem(rule="unsupported", place="decoding", message=message))
        started = time.perf_counter()
        log_probs = self.classifier.frame_log_probs(features)
        prediction = Prediction.of(dict.fromkeys(predictions, lambda: likeliest_actions(log_probs)))
        seconds = time.perf_counter() - started
        timed = dataclasses.replace(prediction, seconds=dict.fromkeys(prediction.segmentations, seconds))
        confident = timed.with_confidences(log_probs.cpu().numpy())
        return lambda: confident

    def align(
        self,
        features: Tensor,
        transcript: Sequence[int],
        *,
        predictions: Sequence[str] = PREDICTIONS,
        decoding: DecodingConfig | None = None,
    ) -> NoReturn:
        """Alignment is not supported.

        Raises:
            InputError: always, with the rule `unsupported`.
        """
        raise InputError(unsupported_task(self.method, "alignment"))

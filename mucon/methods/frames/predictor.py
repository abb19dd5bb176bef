"""A predictor of methods that classify frames and nothing else."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from torch import Tensor

from mucon.decoding.config import DecodingConfig
from mucon.device import full_precision
from mucon.errors import InputError
from mucon.inference.requests import Prediction, check_request, likeliest_actions, unsupported_task
from mucon.methods.frames.network_predictor import NetworkPredictor

PREDICTIONS = ("frames",)
MAIN = "frames"
TASKS = ("segmentation",)


@dataclass(frozen=True, slots=True)
class FramePredictor(NetworkPredictor):
    """A `mucon.method.Predictor` whose only prediction is the most likely action of each frame."""

    predictions: ClassVar[tuple[str, ...]] = PREDICTIONS
    main: ClassVar[str] = MAIN
    tasks: ClassVar[tuple[str, ...]] = TASKS

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
        self.check_choices(decoding, alternatives)
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

"""What the predictors of methods with one network share."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from mucon.checkpoint_files import Progress
from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.identity.weights import weights_sha256
from mucon.methods.frames.network_config import NetworkConfig
from mucon.methods.frames.networks import FrameClassifier
from mucon.videos import Video
from mucon.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class NetworkPredictor:
    """Base of a `mucon.method.Predictor` without alternatives and decoding choices; see there.

    Attributes:
        classifier: the network in evaluation mode.
    """

    method: str
    classifier: FrameClassifier
    config: NetworkConfig
    vocabulary: Vocabulary
    dim: int
    progress: Progress
    trained_on: TrainedOn | None = None

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
        """Itself: the checkpoint contains all facts about the training videos that a prediction needs."""
        return self

    def check_choices(self, decoding: DecodingConfig | None, alternatives: int) -> None:
        """Refuses what the method does not have.

        Raises:
            InputError: decoding choices or alternatives.
        """
        if alternatives:
            message = f"the method {self.method} has no alternatives"
            raise InputError(Problem(rule="unsupported", place="alternatives", value=alternatives, message=message))
        if decoding is not None:
            message = f"the method {self.method} has no decoding choices"
            raise InputError(Problem(rule="unsupported", place="decoding", message=message))

"""A trained MuCon model as a predictor."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mucon.checkpoint import Checkpoint, Progress
from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD
from mucon.decoding.config import DecodingConfig
from mucon.identity.trained_on import TrainedOn
from mucon.identity.weights import weights_sha256
from mucon.inference.names import MAIN, PREDICTIONS
from mucon.inference.predictions import aligned, begin
from mucon.inference.requests import TASKS, Prediction
from mucon.inference.training_facts import training_facts, with_background
from mucon.videos import Video
from mucon.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class MuConPredictor:
    """A `mucon.method.Predictor`; see there.

    Attributes:
        checkpoint: a trained model in evaluation mode.
    """

    checkpoint: Checkpoint

    method: ClassVar[str] = DEFAULT_METHOD
    predictions: ClassVar[tuple[str, ...]] = PREDICTIONS
    main: ClassVar[str] = MAIN
    tasks: ClassVar[tuple[str, ...]] = TASKS

    @property
    def config(self) -> TrainConfig:
        """Configuration of the training."""
        return self.checkpoint.config

    @property
    def vocabulary(self) -> Vocabulary:
        """The actions."""
        return self.checkpoint.vocabulary

    @property
    def progress(self) -> Progress:
        """Position in the training run."""
        return self.checkpoint.progress

    @property
    def trained_on(self) -> TrainedOn | None:
        """The data of the training."""
        return self.checkpoint.trained_on

    @property
    def dim(self) -> int:
        """D of the features."""
        return self.checkpoint.model.size.dim

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.checkpoint.model.parameters()).device

    def weights_sha256(self) -> str:
        """Digest of the weights."""
        return weights_sha256(self.checkpoint.model)

    def to(self, device: torch.device) -> MuConPredictor:
        """A copy on a device, in evaluation mode."""
        model = copy.deepcopy(self.checkpoint.model).to(device).eval()
        return MuConPredictor(dataclasses.replace(self.checkpoint, model=model))

    def prepared(self, training_videos: Sequence[Video], decoding: DecodingConfig | None = None) -> MuConPredictor:
        """A predictor with facts about the training videos, computed if the choices need them and they are absent."""
        chosen = decoding or self.config.decoding
        if not chosen.needs_training_facts or not training_videos:
            return self
        facts = self.checkpoint.facts
        if facts is None or (chosen.length_prior == "fitted" and facts.fitted is None):
            earlier = {} if facts is None else facts.background_offsets
            facts = training_facts(self.checkpoint, training_videos, self.device)
            facts = dataclasses.replace(facts, background_offsets=earlier)
        facts = with_background(facts, self.checkpoint, training_videos, chosen)
        return MuConPredictor(dataclasses.replace(self.checkpoint, facts=facts))

    def begin(
        self,
        features: Tensor,
        *,
        predictions: Sequence[str] = PREDICTIONS,
        decoding: DecodingConfig | None = None,
        alternatives: int = 0,
    ) -> Callable[[], Prediction]:
        """Runs the network and returns the function that decodes."""
        return begin(self.checkpoint, features, predictions=predictions, decoding=decoding, alternatives=alternatives)

    def align(
        self,
        features: Tensor,
        transcript: Sequence[int],
        *,
        predictions: Sequence[str] = PREDICTIONS,
        decoding: DecodingConfig | None = None,
    ) -> Prediction:
        """Aligns a known transcript, see `align_transcript`."""
        return aligned(self.checkpoint, features, transcript, predictions=predictions, decoding=decoding)

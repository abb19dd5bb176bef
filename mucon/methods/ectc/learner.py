"""The learner of ECTC."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from mucon.masks import frames_per_latent
from mucon.methods.ectc.config import EctcConfig
from mucon.methods.ectc.loss import alignment_loss, similarity_gains
from mucon.methods.ectc.network import BackboneClassifier
from mucon.methods.weak import WeakLearner


class EctcLearner(WeakLearner):
    """MuCon's backbone and frame branch, trained on all alignments of the transcripts."""

    TERMS: ClassVar[tuple[str, ...]] = ("total",)
    config: EctcConfig
    network: BackboneClassifier

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video, which reads its log probabilities back from the device once; see `Learner.step`.

        The loss is divided by the number of aligned frames.
        """
        transcript = self.transcripts[index]
        log_probs, latent_of_frame = self.network(features)
        if self.config.loss.rate == "frame" or len(log_probs) < len(transcript):
            log_probs = log_probs[latent_of_frame]
        else:
            features = frames_per_latent(features.T, latent_of_frame, len(log_probs)).T.contiguous()
        gains = similarity_gains(features, self.config.loss.theta)
        total = alignment_loss(log_probs, transcript, gains) / len(log_probs)
        torch.autograd.backward(total)
        return torch.cat((total.detach()[None], self.optimiser.step(rate)))

"""MuCon's backbone and frame branch as a classifier of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from mucon.config import BackboneConfig
from mucon.methods.weak import FrameClassifier, FrameNetworkConfig
from mucon.model.backbone import Backbone, latent_index


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneNetworkConfig(BackboneConfig, FrameNetworkConfig):
    """MuCon's backbone with a linear classifier; the settings are those of `mucon.config.BackboneConfig`."""

    PLACE: ClassVar[str] = "network."

    def build(self, dim: int, n_actions: int) -> BackboneClassifier:
        """A network with fresh weights: those of MuCon's backbone and frame branch with the same seed."""
        return BackboneClassifier(dim, n_actions, self)


class BackboneClassifier(FrameClassifier):
    """Backbone f_t and frame branch f_c of MuCon.

    Args:
        dim: D of the features.
        n_actions: N.
        config: size of the backbone.
    """

    def __init__(self, dim: int, n_actions: int, config: BackboneConfig) -> None:
        super().__init__()
        self.stride = config.pooling if config.upsampling == "stride" else None
        self.backbone = Backbone(dim, config)
        self.frame_branch = nn.Linear(config.channels, n_actions)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities `[T', N]` of latent frames, and each frame's latent frame `[T]`, for features `[T, D]`."""
        log_probs = torch.log_softmax(self.frame_branch(self.backbone(features)), dim=1)
        return log_probs, latent_index(len(features), len(log_probs), stride=self.stride, device=features.device)

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]`, without gradients."""
        log_probs, latent_of_frame = self(features)
        upsampled: Tensor = log_probs[latent_of_frame]
        return upsampled

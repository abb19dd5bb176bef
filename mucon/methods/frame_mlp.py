"""A classifier of single frames: the reference that sees no temporal context, only the features of each frame."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mucon.errors import check_ranges
from mucon.method import Method
from mucon.methods.frames import (
    FrameClassifier,
    FrameConfig,
    FrameLossConfig,
    FrameMethod,
    FrameNetworkConfig,
    FrameTrainingConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMlpNetworkConfig(FrameNetworkConfig):
    """Size of the network.

    Attributes:
        hidden: hidden layers of width `maps`; 0 is multinomial logistic regression.
        maps: width of the hidden layers.
        dropout: probability after each hidden layer.

    Raises:
        InputError: a value outside its range.
    """

    hidden: int = 1
    maps: int = 128
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_ranges(
            "network.",
            [
                ("hidden", self.hidden, "at least 0", self.hidden >= 0),
                ("maps", self.maps, "at least 1", self.maps >= 1),
                ("dropout", self.dropout, "at least 0 and below 1", 0 <= self.dropout < 1),
            ],
        )

    def build(self, dim: int, n_actions: int) -> FrameMlp:
        """A network with fresh weights."""
        layers: list[nn.Module] = []
        width = dim
        for _ in range(self.hidden):
            layers += [nn.Linear(width, self.maps), nn.ReLU(), nn.Dropout(self.dropout)]
            width = self.maps
        return FrameMlp(nn.Sequential(*layers, nn.Linear(width, n_actions)))


class FrameMlp(FrameClassifier):
    """Linear layers on the features of each frame.

    Args:
        layers: `[T, D]` -> logits `[T, N]`.
    """

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, features: Tensor) -> Tensor:
        """Log-probabilities `[1, T, N]` of features `[T, D]`: one stage."""
        return torch.log_softmax(self.layers(features), dim=1)[None]

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]`, without gradients."""
        log_probs: Tensor = self(features)[0]
        return log_probs


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMlpConfig(FrameConfig):
    """Cross-entropy of single frames on all frame labels."""

    network: FrameMlpNetworkConfig = field(default_factory=FrameMlpNetworkConfig)
    loss: FrameLossConfig = field(default_factory=lambda: FrameLossConfig(smoothing=0.0))
    training: FrameTrainingConfig = field(default_factory=lambda: FrameTrainingConfig(epochs=30, learning_rate=0.001))


def demo() -> FrameMlpConfig:
    """A short schedule for the demo data."""
    return FrameMlpConfig(training=FrameTrainingConfig(epochs=12, learning_rate=0.002))


RECIPES = {"full": FrameMlpConfig, "demo": demo, "breakfast": FrameMlpConfig}
FRAME_MLP: Method[FrameMlpConfig] = FrameMethod("frame_mlp", FrameMlpConfig, RECIPES)

"""The networks of MS-TCN and MS-TCN++: a prediction stage and refinement stages, all on `[T, C]` tensors.

Sources: Abu Farha and Gall, "MS-TCN: Multi-Stage Temporal Convolutional Network for Action Segmentation", CVPR 2019;
Li, Abu Farha, Liu, Cheng and Gall, "MS-TCN++", IEEE TPAMI 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mucon.errors import RangeRule, check_ranges
from mucon.methods.frames.networks import FrameClassifier, FrameNetworkConfig
from mucon.model.layers import DualDilatedLayer, ResidualLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class MsTcnNetworkConfig(FrameNetworkConfig):
    """Size of MS-TCN.

    Attributes:
        stages: stages; every stage but the first refines the class probabilities of the one before.
        layers: residual layers per stage, with dilations 1, 2, 4, ...
        maps: channels of every layer.
        dropout: probability in each residual layer.

    Raises:
        InputError: a value outside its range.
    """

    stages: int = 4
    layers: int = 10
    maps: int = 64
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_ranges("network.", _rules(self.stages, self.layers, self.maps, self.dropout))

    def build(self, dim: int, n_actions: int) -> MsTcnNetwork:
        """A network with fresh weights."""
        layers = [ResidualLayer(self.maps, 2**i, self.dropout) for i in range(self.layers)]
        first = Stage(dim, self.maps, n_actions, layers)
        return MsTcnNetwork(first, _refinements(self, n_actions, self.stages - 1), self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class MsTcnPlusPlusNetworkConfig(FrameNetworkConfig):
    """Size of MS-TCN++.

    Attributes:
        stages: stages; every stage but the first refines the class probabilities of the one before.
        prediction_layers: layers of the first stage, with two dilations each: one falls, the other one rises.
        layers: residual layers of each refinement stage, with dilations 1, 2, 4, ...
        maps: channels of every layer.
        dropout: probability in each layer.
        shared: all refinement stages share their weights.

    Raises:
        InputError: a value outside its range.
    """

    stages: int = 4
    prediction_layers: int = 11
    layers: int = 10
    maps: int = 64
    dropout: float = 0.5
    shared: bool = False

    def __post_init__(self) -> None:
        rules = _rules(self.stages, self.layers, self.maps, self.dropout)
        first = ("prediction_layers", self.prediction_layers, "at least 1", self.prediction_layers >= 1)
        check_ranges("network.", [first, *rules])

    def build(self, dim: int, n_actions: int) -> MsTcnNetwork:
        """A network with fresh weights."""
        last = self.prediction_layers - 1
        layers = [
            DualDilatedLayer(self.maps, (2 ** (last - i), 2**i), self.dropout) for i in range(self.prediction_layers)
        ]
        first = Stage(dim, self.maps, n_actions, layers)
        n_refinements = min(self.stages - 1, 1) if self.shared else self.stages - 1
        return MsTcnNetwork(first, _refinements(self, n_actions, n_refinements), self.stages)


def _rules(stages: int, layers: int, maps: int, dropout: float) -> list[RangeRule]:
    return [
        ("stages", stages, "at least 1", stages >= 1),
        ("layers", layers, "at least 1", layers >= 1),
        ("maps", maps, "at least 1", maps >= 1),
        ("dropout", dropout, "at least 0 and below 1", 0 <= dropout < 1),
    ]


def _refinements(config: MsTcnNetworkConfig | MsTcnPlusPlusNetworkConfig, n_actions: int, number: int) -> list[Stage]:
    def layers() -> list[nn.Module]:
        return [ResidualLayer(config.maps, 2**i, config.dropout) for i in range(config.layers)]

    return [Stage(n_actions, config.maps, n_actions, layers()) for _ in range(number)]


class Stage(nn.Module):
    """Convolution of width 1, dilated layers, and a convolution of width 1 to the classes.

    A layer whose dilation reaches T is a convolution of width 1: the outer taps see only padding and are skipped.

    Args:
        n_in: channels of the input.
        maps: channels of the layers.
        n_actions: N.
        layers: `[T, maps]` -> `[T, maps]` each.
    """

    def __init__(self, n_in: int, maps: int, n_actions: int, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.first = nn.Linear(n_in, maps)
        self.layers = nn.ModuleList(layers)
        self.last = nn.Linear(maps, n_actions)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[T, N]` of an input `[T, n_in]`."""
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.last(x)
        return logits


class MsTcnNetwork(FrameClassifier):
    """A prediction stage and refinement stages.

    Args:
        prediction: stage on the features.
        refinements: stages on class probabilities; one for each refinement, or one for all.
        n_stages: number of all stages.
    """

    def __init__(self, prediction: Stage, refinements: Iterable[Stage], n_stages: int) -> None:
        super().__init__()
        self.prediction = prediction
        self.refinements = nn.ModuleList(refinements)
        self.n_stages = n_stages

    def forward(self, features: Tensor) -> Tensor:
        """Log-probabilities `[stages, T, N]` of features `[T, D]`."""
        log_probs = [torch.log_softmax(self.prediction(features), dim=1)]
        for i in range(self.n_stages - 1):
            stage = self.refinements[min(i, len(self.refinements) - 1)]
            log_probs.append(torch.log_softmax(stage(log_probs[-1].exp()), dim=1))
        return torch.stack(log_probs)

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]` of the last stage, without gradients."""
        log_probs: Tensor = self(features)[-1]
        return log_probs

"""The temporal backbone f_t: features of all frames to a shorter latent sequence (paper, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import InputError
from mucon.model.layers import ResidualLayer, dropout, group_norm_rows, pool_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneConfig:
    """Size of the temporal backbone.

    Attributes:
        channels: D', width of every layer and of the latent sequence.
        n_layers: residual layers; layer i (from 0) has dilation 2**i.
        pool_after: 0-based layers after which two frames become one.
        dropout: probability in each residual layer and on the latent sequence.
        n_groups: groups of the one group norm.

    Raises:
        InputError: a value outside its range.
    """

    channels: int = 128
    n_layers: int = 11
    pool_after: tuple[int, ...] = (1, 2, 4, 8)
    dropout: float = 0.25
    n_groups: int = 32

    def __post_init__(self) -> None:
        problems = []
        if self.channels < 1 or self.n_groups < 1 or self.channels % self.n_groups:
            problems.append(
                f"backbone.n_groups divides backbone.channels, {self.n_groups} does not divide {self.channels}"
            )
        if self.n_layers < 1:
            problems.append(f"backbone.n_layers is at least 1, not {self.n_layers}")
        outside = [i for i in self.pool_after if not 0 <= i < self.n_layers]
        if outside or list(self.pool_after) != sorted(set(self.pool_after)):
            problems.append(
                f"backbone.pool_after names distinct layers from 0 to {self.n_layers - 1} in rising order, "
                f"not {list(self.pool_after)}"
            )
        if not 0 <= self.dropout < 1:
            problems.append(f"backbone.dropout is a probability below 1, not {self.dropout}")
        if problems:
            raise InputError(problems)

    @property
    def pooling(self) -> int:
        """Frames for each latent frame, 2 ** number of poolings."""
        return int(2 ** len(self.pool_after))


class Backbone(nn.Module):
    """`[T, D]` -> `[T', D']`, T' = T halved after each pooling layer and at least 1.

    Deviation: a recording shorter than the pooling keeps one latent frame (the published program stops with an error).
    """

    def __init__(self, dim: int, config: BackboneConfig) -> None:
        super().__init__()
        self.pool_after = frozenset(config.pool_after)
        self.dropout = config.dropout
        self.first = nn.Linear(dim, config.channels)
        self.layers = nn.ModuleList(
            ResidualLayer(config.channels, 2**i, config.dropout) for i in range(config.n_layers)
        )
        self.last = nn.Linear(config.channels, config.channels)
        self.norm = nn.GroupNorm(config.n_groups, config.channels)

    def forward(self, features: Tensor) -> Tensor:
        """Latent sequence `[T', D']` of `[T, D]` features."""
        x = functional.relu(self.first(features))
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i in self.pool_after:
                x = pool_pairs(x)
        x = functional.relu(group_norm_rows(self.last(functional.relu(x)), self.norm))
        return dropout(x, self.dropout, self.training)


def latent_index(n_frames: int, n_latent: int, *, device: torch.device | None = None) -> Tensor:
    """For each of T frames the latent frame that stands for it, `[T]` int64: floor(t · T' / T).

    Pooling drops an odd tail and this spreads the rest over all T frames, as the paper's nearest interpolation does.

    Source: paper, section 4.2.

    >>> latent_index(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    return (torch.arange(n_frames, device=device) * n_latent).div_(n_frames, rounding_mode="floor")

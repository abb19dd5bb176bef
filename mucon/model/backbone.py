"""The temporal backbone f_t: maps the features of all frames to a shorter latent sequence (paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.config import BackboneConfig
from mucon.model.layers import DualDilatedLayer, ResidualLayer, dropout, group_norm_rows, linear, pool_pairs


class Backbone(nn.Module):
    """`[T, D]` -> `[T', D']`, T' = T halved after each pooling layer and at least 1.

    The layers before the group norm are computed in the precision of the features, the rest in float32 or wider.

    Deviation: a recording shorter than the pooling keeps one latent frame (the published program fails).
    """

    def __init__(self, dim: int, config: BackboneConfig) -> None:
        super().__init__()
        self.pool_after = frozenset(config.pool_after)
        self.dropout = config.dropout
        self.first = nn.Linear(dim, config.channels)
        self.layers = nn.ModuleList(_layers(config))
        self.last = nn.Linear(config.channels, config.channels)
        self.norm = nn.GroupNorm(config.n_groups, config.channels)

    def forward(self, features: Tensor) -> Tensor:
        """Latent sequence `[T', D']` of features `[T, D]`."""
        x = functional.relu(linear(features, self.first))
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i in self.pool_after:
                x = pool_pairs(x)
        x = linear(functional.relu(x), self.last)
        x = functional.relu(group_norm_rows(x.to(torch.promote_types(x.dtype, torch.float32)), self.norm))
        return dropout(x, self.dropout, self.training)


def _layers(config: BackboneConfig) -> Iterator[nn.Module]:
    for dilation, opposite in zip(config.dilations, reversed(config.dilations), strict=True):
        if config.kind == "dilated":
            yield ResidualLayer(config.channels, dilation, config.dropout)
        elif config.kind == "dual_dilated":
            yield DualDilatedLayer(config.channels, (dilation, opposite), config.dropout)
        else:
            yield nn.Identity()


def latent_index(
    n_frames: int, n_latent: int, *, stride: int | None = None, device: torch.device | None = None
) -> Tensor:
    """The latent frame of each frame: `[T]` int64.

    Without a stride it is floor(t · T' / T), the paper's nearest interpolation: pooling drops an odd tail, and the
    latent frames are distributed over all T frames. With a stride it is t // stride, at most T' - 1.

    Source: paper, section 4.2.

    >>> latent_index(5, 2).tolist(), latent_index(5, 2, stride=2).tolist()
    ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])
    """
    if stride is not None:
        return torch.arange(n_frames, device=device).div_(stride, rounding_mode="floor").clamp_(max=n_latent - 1)
    return (torch.arange(n_frames, device=device) * n_latent).div_(n_frames, rounding_mode="floor")

"""The temporal backbone f_t: maps the features of all frames to a shorter latent sequence (paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import check_ranges
from mucon.model.layers import DualDilatedLayer, ResidualLayer, dropout, group_norm_rows, linear, pool_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneConfig:
    """Size of the temporal backbone.

    Attributes:
        kind: `dilated`: residual layers of one dilated convolution each (paper). `dual_dilated`: of two, with
            increasing and decreasing dilations (first stage of MS-TCN++). `single`: only the first convolution of
            width 1 and the pooling.
        channels: D', width of every layer and of the latent sequence.
        n_layers: residual layers; `single` has identities instead, so that `pool_after` applies to it.
        dilation: dilation of layer i, from 0: `exponential` 2**i, `linear` i + 1, `fixed` 1.
        pool_after: 0-based layers after which neighbouring frames are pooled in pairs.
        dropout: probability in each residual layer and on the latent sequence.
        n_groups: groups of the group norm.
        upsampling: latent frame of frame t. `nearest`: floor(t T' / T), which distributes the frames of an odd tail
            over the recording. `stride`: t // pooling, and the last one for the tail; the borders are then exactly
            those of the pooling, which matters in short recordings.

    Raises:
        InputError: a value outside its range.
    """

    kind: Literal["dilated", "dual_dilated", "single"] = "dilated"
    channels: int = 128
    n_layers: int = 11
    dilation: Literal["exponential", "linear", "fixed"] = "exponential"
    pool_after: tuple[int, ...] = (1, 2, 4, 8)
    dropout: float = 0.25
    n_groups: int = 32
    upsampling: Literal["nearest", "stride"] = "nearest"

    def __post_init__(self) -> None:
        divides = self.n_groups >= 1 and self.channels % self.n_groups == 0
        layers = list(self.pool_after)
        ascending = layers == sorted(set(layers)) and all(0 <= layer < self.n_layers for layer in layers)
        check_ranges(
            "backbone.",
            [
                ("channels", self.channels, "at least 1", self.channels >= 1),
                ("n_groups", self.n_groups, f"a divisor of backbone.channels ({self.channels})", divides),
                ("n_layers", self.n_layers, "at least 1", self.n_layers >= 1),
                ("pool_after", layers, f"distinct ascending layers from 0 to {self.n_layers - 1}", ascending),
                ("dropout", self.dropout, "at least 0 and below 1", 0 <= self.dropout < 1),
            ],
        )

    @property
    def pooling(self) -> int:
        """Frames per latent frame, 2 ** number of poolings."""
        return int(2 ** len(self.pool_after))

    @property
    def dilations(self) -> tuple[int, ...]:
        """Dilation of each layer, in order."""
        if self.dilation == "fixed":
            return (1,) * self.n_layers
        return tuple(i + 1 if self.dilation == "linear" else int(2**i) for i in range(self.n_layers))


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

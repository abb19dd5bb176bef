"""TCFPN: a temporal convolutional feature pyramid, whose resolutions all classify the frames.

From the paper and the released program: three levels of convolution, normalisation, dropout of whole channels, ReLU and
maximum of two frames; lateral connections of width 1, the features themselves at full resolution; no nonlinearity in
the decoder; the mean of the four probability vectors; every 15th frame on Breakfast (recipe `breakfast`).
Deviations: one video per step instead of eight, and therefore group normalisation (in each video) instead of batch
normalisation, which in the program also sees the padding; Adam instead of RMSprop; by default all frames.

Source: Ding and Xu, "Weakly-supervised action segmentation with iterative soft boundary assignment", CVPR 2018.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mucon.errors import check_ranges
from mucon.methods.encoder_decoder.layers import (
    GroupNorm,
    SampledClassifier,
    convolution,
    pooled,
    shared_rules,
    stretched,
)
from mucon.methods.frames import FrameNetworkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TcfpnNetworkConfig(FrameNetworkConfig):
    """Size of TCFPN.

    Attributes:
        channels: channels of each level of the encoder; a level has half the frames of the one before.
        maps: channels of the decoder.
        kernel: frames of a convolution, odd.
        groups: groups of channels that are normalised together; divides each of `channels`.
        dropout: probability with which a channel is dropped, in each level and before each classifier.
        sample_rate: every n-th frame is used.

    Raises:
        InputError: a value outside its range.
    """

    channels: tuple[int, ...] = (48, 64, 96)
    maps: int = 48
    kernel: int = 25
    groups: int = 8
    dropout: float = 0.1
    sample_rate: int = 1

    def __post_init__(self) -> None:
        wide = len(self.channels) > 0 and all(width >= 1 for width in self.channels)
        divided = self.groups >= 1 and all(width % self.groups == 0 for width in self.channels)
        check_ranges(
            "network.",
            [
                ("channels", self.channels, "at least one number, each at least 1", wide),
                ("maps", self.maps, "at least 1", self.maps >= 1),
                ("groups", self.groups, "at least 1, and a divisor of each of network.channels", divided),
                *shared_rules(self.kernel, self.dropout, self.sample_rate),
            ],
        )

    @property
    def pooling(self) -> int:
        """Every n-th frame is classified by itself."""
        return self.sample_rate

    def build(self, dim: int, n_actions: int) -> TcfpnNetwork:
        """A network with fresh weights."""
        return TcfpnNetwork(self, dim, n_actions)


class TcfpnNetwork(SampledClassifier):
    """An encoder, a decoder with lateral connections, and a classifier at each resolution.

    Args:
        config: its size.
        dim: D.
        n_actions: N.
    """

    def __init__(self, config: TcfpnNetworkConfig, dim: int, n_actions: int) -> None:
        super().__init__(config.sample_rate)
        maps, kernel = config.maps, config.kernel
        widths = (dim, *config.channels)
        self.encoder = nn.ModuleList(
            nn.Sequential(
                convolution(n_in, n_out, kernel, bias=False),
                GroupNorm(config.groups, n_out),
                nn.Dropout1d(config.dropout),
                nn.ReLU(),
            )
            for n_in, n_out in itertools.pairwise(widths)
        )
        self.top = convolution(widths[-1], maps, 1, bias=False)
        self.laterals = nn.ModuleList(convolution(width, maps, 1, bias=False) for width in widths[-2::-1])
        self.decoder = nn.ModuleList(convolution(maps, maps, kernel, bias=False) for _ in config.channels)
        self.classifiers = nn.ModuleList(
            nn.Sequential(nn.Dropout1d(config.dropout), convolution(maps, n_actions, 1)) for _ in widths
        )

    def log_probs(self, x: Tensor) -> Tensor:
        """Logarithm of the mean of the probabilities at each resolution, `[1, N, T]`, of features `[1, D, T]`."""
        length = x.shape[2]
        levels = [x]
        for level in self.encoder:
            levels.append(pooled(level(levels[-1])))
        decoded = [self.top(levels.pop())]
        for lateral, decode, passed in zip(self.laterals, self.decoder, reversed(levels), strict=True):
            decoded.append(decode(stretched(decoded[-1], 2, passed.shape[2]) + lateral(passed)))
        log_probs = [torch.log_softmax(classify(y), 1) for classify, y in zip(self.classifiers, decoded, strict=True)]
        times = [2 ** (len(decoded) - 1 - i) for i in range(len(decoded))]
        at_each_frame = [stretched(one, n, length) for one, n in zip(log_probs, times, strict=True)]
        return torch.logsumexp(torch.stack(at_each_frame), 0) - math.log(len(decoded))

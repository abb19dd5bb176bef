"""ED-TCN: an encoder and a decoder of temporal convolutions.

From the paper: a level of the encoder is a convolution, a normalised ReLU and the maximum of two frames; a level of the
decoder repeats each frame, convolves and rectifies again; whole channels are dropped; cross-entropy and Adam.
From the released program: kernel, widths, the share of dropped channels, and dropout before the ReLU.
Deviations: one video per step instead of eight, without padding.

Source: Lea, Flynn, Vidal, Reiter and Hager, "Temporal convolutional networks for action segmentation and detection",
CVPR 2017.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mucon.errors import check_ranges
from mucon.methods.encoder_decoder.layers import SampledClassifier, convolution, pooled, shared_rules, stretched
from mucon.methods.frames import FrameNetworkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EdTcnNetworkConfig(FrameNetworkConfig):
    """Size of ED-TCN.

    Attributes:
        layers: levels of the encoder, and of the decoder; a level of the encoder has half the frames of the one before.
        maps: channels of the first level.
        growth: channels that each further level has more.
        kernel: frames of a convolution, odd.
        dropout: probability with which a channel is dropped, in each level.
        sample_rate: every n-th frame is used.

    Raises:
        InputError: a value outside its range.
    """

    layers: int = 2
    maps: int = 64
    growth: int = 32
    kernel: int = 25
    dropout: float = 0.3
    sample_rate: int = 1

    def __post_init__(self) -> None:
        check_ranges(
            "network.",
            [
                ("layers", self.layers, "at least 1", self.layers >= 1),
                ("maps", self.maps, "at least 1", self.maps >= 1),
                ("growth", self.growth, "at least 0", self.growth >= 0),
                *shared_rules(self.kernel, self.dropout, self.sample_rate),
            ],
        )

    @property
    def pooling(self) -> int:
        """Frames per frame of the decoder's input: no connection passes it by."""
        return int(self.sample_rate * 2**self.layers)

    def build(self, dim: int, n_actions: int) -> EdTcnNetwork:
        """A network with fresh weights."""
        return EdTcnNetwork(self, dim, n_actions)


class NormalisedRelu(nn.Module):
    """ReLU divided by the largest value of a frame.

    Source: paper, section 3.1.
    """

    def forward(self, x: Tensor) -> Tensor:
        """`[1, C, T]` -> values from 0 to 1 of the same shape."""
        positive = torch.relu(x)
        return positive / (positive.amax(dim=1, keepdim=True) + 1e-5)


class EdTcnNetwork(SampledClassifier):
    """An encoder, a decoder and a classifier of the frames.

    Args:
        config: its size.
        dim: D.
        n_actions: N.
    """

    def __init__(self, config: EdTcnNetworkConfig, dim: int, n_actions: int) -> None:
        super().__init__(config.sample_rate)
        widths = [config.maps + i * config.growth for i in range(config.layers)]
        into = [dim, *widths, *reversed(widths)]
        levels = [
            nn.Sequential(convolution(n_in, n_out, config.kernel), nn.Dropout1d(config.dropout), NormalisedRelu())
            for n_in, n_out in itertools.pairwise(into)
        ]
        self.encoder, self.decoder = nn.ModuleList(levels[: config.layers]), nn.ModuleList(levels[config.layers :])
        self.classifier = convolution(into[-1], n_actions, 1)

    def log_probs(self, x: Tensor) -> Tensor:
        """Log-probabilities `[1, N, T]` of features `[1, D, T]`."""
        lengths = []
        for level in self.encoder:
            lengths.append(x.shape[2])
            x = pooled(level(x))
        for level in self.decoder:
            x = level(stretched(x, 2, lengths.pop()))
        return torch.log_softmax(self.classifier(x), 1)

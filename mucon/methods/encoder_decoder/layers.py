"""Layers of networks that pool time and stretch it again, on `[1, C, T]` tensors of any length T >= 1.

A pooled sequence has ceil(T/2) frames and a stretched one is cut to the length that it had before. This equals padding
to a multiple of the pooling with a mask: no frame of the padding enters a convolution, a mean or a maximum.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mucon.errors import RangeRule
from mucon.methods.frames import FrameClassifier


def convolution(n_in: int, n_out: int, kernel: int, *, bias: bool = True) -> nn.Conv1d:
    """A convolution that keeps the length: `[1, n_in, T]` -> `[1, n_out, T]`, with zeros outside."""
    return nn.Conv1d(n_in, n_out, kernel, padding=kernel // 2, bias=bias)


def pooled(x: Tensor) -> Tensor:
    """The maximum of two neighbouring frames: `[1, C, T]` -> `[1, C, ceil(T/2)]`."""
    return nn.functional.max_pool1d(x, 2, ceil_mode=True)


def stretched(x: Tensor, times: int, length: int) -> Tensor:
    """Repeats each frame and cuts: `[1, C, T']` -> `[1, C, length]`, length <= times · T'."""
    return x[..., None].expand(-1, -1, -1, times).flatten(2)[..., :length]


class GroupNorm(nn.GroupNorm):
    """Group normalisation in which a group of a single value becomes the bias (torch's raises an error)."""

    def forward(self, x: Tensor) -> Tensor:
        """`[1, C, T]` -> the same shape."""
        return torch.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class SampledClassifier(FrameClassifier):
    """A classifier of every n-th frame; the frames up to the next one have the same distribution.

    Args:
        sample_rate: n; 1 keeps all frames.
    """

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self.sample_rate = sample_rate

    def log_probs(self, x: Tensor) -> Tensor:
        """Log-probabilities `[1, N, T]` of the features `[1, D, T]` of the frames that are kept."""
        raise NotImplementedError

    def forward(self, features: Tensor) -> Tensor:
        """Log-probabilities `[1, T, N]` of features `[T, D]`: one stage."""
        log_probs = self.log_probs(features[:: self.sample_rate].t()[None])
        return stretched(log_probs, self.sample_rate, len(features)).transpose(1, 2)

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]`, without gradients."""
        log_probs: Tensor = self(features)[0]
        return log_probs


def shared_rules(kernel: int, dropout: float, sample_rate: int) -> list[RangeRule]:
    """The ranges of settings that the networks share, for `mucon.errors.check_ranges`."""
    return [
        ("kernel", kernel, "odd and at least 1", kernel >= 1 and kernel % 2 == 1),
        ("dropout", dropout, "at least 0 and below 1", 0 <= dropout < 1),
        ("sample_rate", sample_rate, "at least 1", sample_rate >= 1),
    ]

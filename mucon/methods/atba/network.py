"""ATBA's network: a transformer whose frames attend to their neighbourhood and to one token of each class.

Source: Xu and Zheng, CVPR 2024. Deviations: positions are sinusoids with a learned scale, so that a recording of any
length works, or none; the attention of the frames is computed in bands, with memory linear in their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import check_ranges
from mucon.methods.weak import FrameClassifier, FrameNetworkConfig

BLOCK = 64
"""Frames whose attention is computed together."""
SCALE = 0.01
"""Initial scale of the positions and of the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtbaNetworkConfig(FrameNetworkConfig):
    """Size and input of the network.

    Attributes:
        maps: width of every layer; four times as wide between its two last linear maps.
        layers: encoder layers; in layer l = 0, 1, ... a frame attends to the frames within 2^l.
        dropout: probability after each attention and linear layer, and of each attention weight.
        positions: sinusoids with a learned scale, or none.
        sample_rate: frames per block; the network sees one frame of each, a random one in training.

    Raises:
        InputError: a value outside its range.
    """

    maps: int = 64
    layers: int = 3
    dropout: float = 0.1
    positions: Literal["sinusoidal", "none"] = "sinusoidal"
    sample_rate: int = 1

    def __post_init__(self) -> None:
        check_ranges(
            "network.",
            [
                ("maps", self.maps, "at least 1", self.maps >= 1),
                ("layers", self.layers, "from 1 to 30", 1 <= self.layers <= 30),
                ("dropout", self.dropout, "at least 0 and below 1", 0 <= self.dropout < 1),
                ("sample_rate", self.sample_rate, "at least 1", self.sample_rate >= 1),
            ],
        )

    def build(self, dim: int, n_actions: int) -> AtbaNetwork:
        """A network with fresh weights."""
        return AtbaNetwork(dim, n_actions, self)


class Outputs(NamedTuple):
    """What the network makes of T' sampled frames.

    Attributes:
        frame_logits: `[T', N]`.
        video_logits: `[N]`, of the presence of each action.
        frames: `[T', C]`, features of the last layer.
        tokens: `[N, C]`, likewise.
    """

    frame_logits: Tensor
    video_logits: Tensor
    frames: Tensor
    tokens: Tensor


class AtbaNetwork(FrameClassifier):
    """A linear map, encoder layers over class tokens and frames, and one classifier for both.

    Args:
        dim: D.
        n_actions: N.
        config: size and input.
    """

    def __init__(self, dim: int, n_actions: int, config: AtbaNetworkConfig) -> None:
        super().__init__()
        self.sample_rate = config.sample_rate
        self.first = nn.Linear(dim, config.maps)
        self.scale = nn.Parameter(torch.tensor([SCALE])) if config.positions == "sinusoidal" else None
        self.tokens = nn.Parameter(SCALE * torch.randn(n_actions, config.maps))
        self.layers = nn.ModuleList(EncoderLayer(config.maps, 2**i, config.dropout) for i in range(config.layers))
        self.norm = nn.LayerNorm(config.maps)
        self.classifier = nn.Linear(config.maps, n_actions)

    def forward(self, features: Tensor) -> Outputs:
        """Logits and features of sampled frames `[T', D]`."""
        x = self.first(features)
        if self.scale is not None:
            x = x + self.scale * sinusoids(*x.shape, device=x.device, dtype=x.dtype)
        n_tokens = len(self.tokens)
        x = torch.cat((self.tokens, x))
        for layer in self.layers:
            x = layer(x, n_tokens)
        tokens, frames = self.norm(x).tensor_split([n_tokens])
        video_logits = (tokens * self.classifier.weight).sum(dim=1) + self.classifier.bias
        return Outputs(self.classifier(frames), video_logits, frames, tokens)

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]`: logits of the middle frame of each block, interpolated linearly."""
        logits = self(features[sampled_frames(len(features), self.sample_rate, features.device)]).frame_logits
        if self.sample_rate > 1:
            logits = functional.interpolate(logits.T[None], size=len(features), mode="linear")[0].T
        return torch.log_softmax(logits, dim=1)


class EncoderLayer(nn.Module):
    """Attention with one head and two linear maps, each after a normalisation and added to its input.

    Args:
        maps: C.
        reach: largest distance of the frames that a frame attends to.
        dropout: probability.
    """

    def __init__(self, maps: int, reach: int, dropout: float) -> None:
        super().__init__()
        self.reach = reach
        self.attention_norm, self.hidden_norm = nn.LayerNorm(maps), nn.LayerNorm(maps)
        self.projections, self.mixed = nn.Linear(maps, 3 * maps), nn.Linear(maps, maps)
        self.hidden = nn.Sequential(
            nn.Linear(maps, 4 * maps), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * maps, maps)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, n_tokens: int) -> Tensor:
        """Tokens and frames `[N + T, C]`, the tokens first; the same shape.

        A token attends to everything, a frame to all tokens and to the frames within the reach.
        """
        query, keys, values = self.projections(self.attention_norm(x)).chunk(3, dim=1)
        query = query / query.shape[1] ** 0.5
        of_tokens = self.dropout(torch.softmax(query[:n_tokens] @ keys.T, dim=1)) @ values
        of_frames = self.local_attention(query[n_tokens:], keys, values, n_tokens)
        x = x + self.dropout(self.mixed(torch.cat((of_tokens, of_frames))))
        hidden: Tensor = x + self.dropout(self.hidden(self.hidden_norm(x)))
        return hidden

    def local_attention(self, query: Tensor, keys: Tensor, values: Tensor, n_tokens: int) -> Tensor:
        """Means of the values for the frames `[T, C]`, with memory for T · (N + `BLOCK` + 2 · reach) weights.

        Args:
            query: `[T, C]`.
            keys: `[N + T, C]`.
            values: `[N + T, C]`.
            n_tokens: N.
        """
        T, C = query.shape
        reach, block = min(self.reach, T - 1), min(BLOCK, T)
        missing = -T % block

        def windows(frames: Tensor) -> Tensor:
            padded = functional.pad(frames[n_tokens:], (0, 0, reach, reach + missing))
            return padded.unfold(0, block + 2 * reach, block)  # [blocks, C, block + 2 reach]

        blocks = functional.pad(query, (0, 0, 0, missing)).view(-1, block, C)
        near = blocks @ windows(keys)
        key, row = (torch.arange(near.shape[i], device=query.device) for i in (2, 1))
        first = block * torch.arange(len(blocks), device=query.device) - reach
        distance = key - reach - row[:, None]
        frame = first[:, None] + key
        allowed = (distance.abs() <= reach) & ((frame >= 0) & (frame < T))[:, None]
        scores = torch.cat((blocks @ keys[:n_tokens].T, near.masked_fill(~allowed, -torch.inf)), dim=2)
        of_tokens, of_frames = self.dropout(torch.softmax(scores, dim=2)).tensor_split([n_tokens], dim=2)
        means: Tensor = of_tokens @ values[:n_tokens] + of_frames @ windows(values).transpose(1, 2)
        return means.reshape(-1, C)[:T]


def sinusoids(length: int, maps: int, *, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Positions `[length, maps]`: sines and cosines whose periods rise from 2 π to 20,000 π frames."""
    half = -(-maps // 2)
    frames = torch.arange(length, device=device, dtype=torch.float32)
    rates = 10_000 ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    angles = frames[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)[:, :maps].to(dtype)


def sampled_frames(n_frames: int, rate: int, device: torch.device, *, at_random: bool = False) -> Tensor:
    """One frame of each block of `rate` frames: `[T']`, T' = T / rate, rounded up; the last block may be shorter.

    Args:
        n_frames: T.
        rate: frames per block.
        device: device of the result.
        at_random: a random frame of each block, from torch's generator; otherwise the middle one.
    """
    first = torch.arange(0, n_frames, rate, device=device)
    sizes = (n_frames - first).clamp(max=rate)
    if not at_random:
        return first + sizes // 2
    drawn = (torch.rand(len(first), device=device) * sizes).long()
    return first + torch.minimum(drawn, sizes - 1)

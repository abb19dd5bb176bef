"""Tokens of a recording: how often each segment of its transcript is repeated, and how tokens become targets of frames.

K tokens divide T frames into equal parts. A segment with more tokens than another one is so much longer.

Source: Ding and Xu, "Weakly-supervised action segmentation with iterative soft boundary assignment", CVPR 2018, section
4, and the released program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.arrays import Ints


def soft_targets(tokens: Tensor, n_frames: int) -> Tensor:
    """Stretches tokens to frames by linear interpolation between their centres.

    Frame t lies at (t + 1/2) K/T - 1/2 between the tokens, and at the first or last one if it is outside.

    Args:
        tokens: `[K, N]` one-hot rows.
        n_frames: T.

    Returns:
        `[T, N]`; each row sums to 1.
    """
    stretched = torch.nn.functional.interpolate(tokens.t()[None], size=n_frames, mode="linear", align_corners=False)
    return stretched[0].t()


def soft_loss(log_probs: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy between soft targets and predictions, each frame weighted by the class of its nearest token.

    Args:
        log_probs: `[T, N]`.
        tokens: `[K]` int64 action of each token.
        weights: `[N]` weight of each action.

    Returns:
        A scalar, the mean over the frames.
    """
    T, N = log_probs.shape
    one_hot = torch.eye(N, dtype=log_probs.dtype, device=log_probs.device)[tokens]
    nearest = torch.arange(T, device=log_probs.device) * len(tokens) // T
    cross_entropy = -(soft_targets(one_hot, T) * log_probs).sum(dim=1)
    return (weights[tokens[nearest]] * cross_entropy).mean()


def class_weights(tokens: Iterable[Ints], n_actions: int) -> NDArray[np.float64]:
    """Weights `[N]`: one over the root of the number of tokens of an action, with mean 1.

    Deviation: in the released program, an action without token makes all weights useless; here it has weight 1, which
    no frame uses, and does not enter the mean.

    Args:
        tokens: actions `[K]` of the tokens of each training video.
        n_actions: N.
    """
    numbers = sum((np.bincount(one, minlength=n_actions) for one in tokens), start=np.zeros(n_actions, dtype=np.int64))
    used = numbers > 0
    weights = np.ones(n_actions)
    weights[used] = numbers[used] ** -0.5
    weights[used] /= weights[used].mean()
    return weights


def refined(
    counts: Ints,
    transcript: Sequence[int] | Ints,
    probs: NDArray[np.floating],
    random: np.random.Generator,
    *,
    margin: float,
    flip: float,
) -> Ints:
    """Adds a token at each border between segments, on the side whose action is more likely in the border's frame.

    Deviation: a round that would give more tokens than frames adds none, so that no segment loses its last frame.

    Args:
        counts: `[M]` tokens of each segment, at least 1.
        transcript: `[M]` actions. No token is added between equal neighbours.
        probs: `[T, N]` probabilities of the actions in each frame, M <= T.
        random: its next M-1 numbers are used.
        margin: a difference of probabilities up to this adds no token.
        flip: probability that a token is added on the other side.

    Returns:
        `[M]` tokens of each segment; each grows by at most two.
    """
    actions = np.asarray(transcript)
    left, right = actions[:-1], actions[1:]
    frames = np.cumsum(counts)[:-1] * len(probs) // counts.sum()
    difference = probs[frames, left] - probs[frames, right]
    to_left = (difference > 0) ^ (random.random(len(left)) < flip)
    grows = (np.abs(difference) > margin) & (left != right)
    fresh = counts.copy()
    fresh[:-1] += grows & to_left
    fresh[1:] += grows & ~to_left
    return fresh if fresh.sum() <= len(probs) else counts


def lengths_of(counts: Ints, n_frames: int) -> Ints:
    """Frames `[M]` of each segment if frame t belongs to token floor(t K/T).

    Args:
        counts: `[M]` tokens of each segment.
        n_frames: T; with K <= T, each segment has a frame.
    """
    ends = -(-np.cumsum(counts) * n_frames // counts.sum())
    lengths: Ints = np.diff(ends, prepend=0)
    return lengths

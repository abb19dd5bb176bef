"""Soft alignments: a soft minimum over the alignments whose boundaries are near those of the best one.

Source: Li, Lei and Todorovic, "Weakly Supervised Energy-Based Learning for Action Segmentation", ICCV 2019.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mucon.arrays import Ints

NEVER = 1e30
"""Energy of an edge or a label that does not exist: its weight exp(-energy) is 0, and sums of it stay finite."""


def candidates(lengths: Ints, *, window: int = 10, step: int = 5) -> tuple[Ints, NDArray[np.bool_]]:
    """Possible last frames of the segments, around those of an alignment.

    The published windows assume long segments. Here a candidate leaves at least one frame to every segment before and
    after it, so that no segment loses all its candidates, and equal candidates count once. The alignment itself is
    always a path.

    Args:
        lengths: `[M]` frames of the alignment, each at least 1.
        window: the candidates are up to `window / 2` frames before and after the alignment.
        step: frames between two candidates.

    Returns:
        `[M+1, K]` last frames, from -1 (before the first segment) to T-1; and which of them are candidates.

    >>> places, exist = candidates(np.array([20, 20, 3]))
    >>> [row[chosen].tolist() for row, chosen in zip(places, exist)]
    [[-1], [14, 19, 24], [34, 39, 41], [42]]
    """
    M, T = len(lengths), int(lengths.sum())
    offsets = np.arange(-(window // 2), window // 2 + 1, step)
    places = np.concatenate(([0], np.cumsum(lengths)))[:, None] - 1 + offsets
    segments = np.arange(M + 1)[:, None]
    places = np.clip(places, segments - 1, T - 1 - (M - segments))
    places[0], places[M] = -1, T - 1
    exist = np.diff(places, axis=1, prepend=-2) > 0
    return places, exist


def connected(places: Tensor, exist: Tensor) -> Tensor:
    """The edges `[M, K, K]` from candidates (rows) to later ones of the next segment (columns).

    Args:
        places: `[M+1, K]` last frames, see `candidates`.
        exist: `[M+1, K]`, which of them are candidates.
    """
    return exist[:-1, :, None] & exist[1:, None] & (places[:-1, :, None] < places[1:, None])


def soft_minimum(energies: Tensor, connected: Tensor) -> Tensor:
    """Soft minimum over the paths through edges `[M, K, K]` from candidates (rows) to the next ones (columns)."""
    edges = torch.where(connected, energies, NEVER)
    reached = edges.new_zeros(edges.shape[1])
    for edge in edges:
        reached = -torch.logsumexp(-(reached[:, None] + edge), dim=0)
    return -torch.logsumexp(-reached, dim=0)


def soft_alignment_loss(
    log_probs: Tensor, transcript: Tensor, places: Tensor, exist: Tensor, temperature: float = 1.0
) -> Tensor:
    """Soft minimum of the energies of all paths, per frame; a scalar.

    A path chooses a candidate for the end of each segment. Its energy is the sum of -log p of the segments' actions
    over the frames. The gradient is that of a cross-entropy with the labels of all paths, weighted by
    exp(-energy / temperature).

    Args:
        log_probs: `[T, N]`.
        transcript: `[M]` int64.
        places: `[M+1, K]` last frames, see `candidates`.
        exist: `[M+1, K]`, which of them are candidates.
        temperature: above 0; lower ones follow the best path.
    """
    summed = functional.pad(-log_probs[:, transcript].double().cumsum(0), (0, 0, 1, 0))
    segments = torch.arange(len(transcript), device=transcript.device)[:, None]
    begins, ends = summed[places[:-1] + 1, segments], summed[places[1:] + 1, segments]
    energies = ends[:, None, :] - begins[:, :, None]
    least = temperature * soft_minimum(energies / temperature, connected(places, exist))
    return (least / len(log_probs)).to(log_probs.dtype)

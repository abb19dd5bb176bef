"""The constrained discriminative forward loss: a soft minimum over alignments near the best one.

Source: Li, Lei and Todorovic, "Weakly Supervised Energy-Based Learning for Action Segmentation", ICCV 2019, and their
released program.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mucon.arrays import Ints

Discriminative = Literal["none", "released", "better", "all"]
"""The labels of a segment that compete with the true one, see `loss_terms`."""
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


def loss_terms(
    log_probs: Tensor, transcript: Tensor, places: Tensor, exist: Tensor, discriminative: Discriminative
) -> tuple[Tensor, Tensor]:
    """The loss of the transcript's paths, and that of their rivals; both are sums over frames, in float64.

    A path chooses a candidate for the end of each segment. Its energy is the sum of -log p over the frames, and a loss
    is the soft minimum -log sum exp(-energy) over all paths. For the rivals each segment of a path has several labels:
    `none` has no rivals (0). `released`: all labels, but one that is not better than the true one counts with energy 0,
    as in the released program; since segments have large energies, the result has practically no gradient. `better`:
    the true label and those that are at least as good. `all`: all labels. Neither loss contains priors of classes or
    lengths.

    Args:
        log_probs: `[T, N]`.
        transcript: `[M]` action ids.
        places: `[M+1, K]` last frames, see `candidates`.
        exist: `[M+1, K]`, which of them are candidates.
        discriminative: the rivals.

    Returns:
        Two scalars; the loss is their difference.
    """
    summed = functional.pad(-log_probs.double().cumsum(0), (0, 0, 1, 0))[places + 1]
    energies = summed[1:, None] - summed[:-1, :, None]
    true = energies.gather(3, transcript[:, None, None, None].expand(*energies.shape[:3], 1))
    connected = exist[:-1, :, None] & exist[1:, None] & (places[:-1, :, None] < places[1:, None])
    valid = _soft_minimum(true[..., 0], connected)
    if discriminative == "none":
        return valid, torch.zeros_like(valid)
    if discriminative == "released":
        energies = torch.where(energies < true, energies, 0.0)
    elif discriminative == "better":
        energies = torch.where(energies <= true, energies, NEVER)
    return valid, _soft_minimum(-torch.logsumexp(-energies, dim=3), connected)


def _soft_minimum(energies: Tensor, connected: Tensor) -> Tensor:
    """Soft minimum over the paths through edges `[M, K, K]` from candidates (rows) to the next ones (columns)."""
    edges = torch.where(connected, energies, NEVER)
    reached = edges.new_zeros(edges.shape[1])
    for edge in edges:
        reached = -torch.logsumexp(-(reached[:, None] + edge), dim=0)
    return -torch.logsumexp(-reached, dim=0)

"""The constrained discriminative forward loss: a soft minimum over alignments near the best one.

Source: Li, Lei and Todorovic, "Weakly Supervised Energy-Based Learning for Action Segmentation", ICCV 2019, and their
released program.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from mucon.extensions.soft_alignment import NEVER, candidates, connected, soft_minimum

__all__ = ["Discriminative", "candidates", "loss_terms"]

Discriminative = Literal["none", "released", "better", "all"]
"""The labels of a segment that compete with the true one, see `loss_terms`."""


def loss_terms(
    log_probs: Tensor, transcript: Tensor, places: Tensor, exist: Tensor, discriminative: Discriminative
) -> tuple[Tensor, Tensor]:
    """The loss of the transcript's paths, and that of their rivals; both are sums over frames, in float64.

    A path chooses a candidate for the end of each segment. Its energy is the sum of -log p over the frames, and a loss
    is the soft minimum -log sum exp(-energy) over all paths. For the rivals each segment of a path has several labels:
    `none` has no rivals (0). `released`: all labels, but one that is not better than the true one counts with energy 0,
    as in the released program; energies of many frames of an undecided network are so large that only those count,
    and the result has practically no gradient, while a decided network has better labels with small energies.
    `better`: the true label and those that are at least as good. `all`: all labels. Neither loss contains priors of
    classes or lengths.

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
    edges = connected(places, exist)
    valid = soft_minimum(true[..., 0], edges)
    if discriminative == "none":
        return valid, torch.zeros_like(valid)
    if discriminative == "released":
        energies = torch.where(energies < true, energies, 0.0)
    elif discriminative == "better":
        energies = torch.where(energies <= true, energies, NEVER)
    return valid, soft_minimum(-torch.logsumexp(-energies, dim=3), edges)

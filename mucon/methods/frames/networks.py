"""Networks that classify frames, their ensembles, and the configurations that build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mucon.model.ensemble import mean_log_probs


class FrameClassifier(nn.Module):
    """A network that classifies frames."""

    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]` of features `[T, D]`, without gradients."""
        raise NotImplementedError


class FrameEnsemble(FrameClassifier):
    """Classifiers of the same size: the normalised geometric mean of their distributions of each frame.

    Args:
        members: at least one.
    """

    def __init__(self, members: Sequence[FrameClassifier]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]`, without gradients."""
        members = [member for member in self.members if isinstance(member, FrameClassifier)]
        return mean_log_probs([member.frame_log_probs(features) for member in members])


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameNetworkConfig:
    """Base of the configurations of networks."""

    def build(self, dim: int, n_actions: int) -> FrameClassifier:
        """A network with fresh weights for features `[T, dim]` and N actions."""
        raise NotImplementedError

    @property
    def pooling(self) -> int:
        """Frames per frame that the network classifies; segments that are shorter cannot be resolved."""
        return 1


def build_network(
    config: FrameNetworkConfig, dim: int, n_actions: int, members: int = 1, *, seed: int
) -> FrameClassifier:
    """A network, or an ensemble, with fresh weights that depend on the seed alone; built on the CPU in float32.

    They are drawn from torch's default distribution for convolutions, as in the published programs.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = [config.build(dim, n_actions) for _ in range(members)]
    return networks[0] if members == 1 else FrameEnsemble(networks)

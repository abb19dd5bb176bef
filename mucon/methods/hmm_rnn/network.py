"""The window GRU as a classifier of states, with what decoding needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import check_ranges
from mucon.methods.hmm_rnn.states import States
from mucon.methods.weak import FrameClassifier
from mucon.methods.window_gru import WindowGru, WindowGruConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HmmNetworkConfig(WindowGruConfig):
    """Size of the network.

    Attributes:
        max_states: largest number of states of an action. The network has so many outputs per action; those that are
            not in use have probability 0.

    Raises:
        InputError: a value outside its range.
    """

    max_states: int = 64

    def __post_init__(self) -> None:
        WindowGruConfig.__post_init__(self)
        check_ranges("network.", [("max_states", self.max_states, "at least 1", self.max_states >= 1)])

    def build(self, dim: int, n_actions: int) -> FrameClassifier:
        """A network with fresh weights and one state per action."""
        return StateClassifier(dim, n_actions, self)


class StateOutput(nn.Linear):
    """The last layer: logits of the states, -inf for those that are not in use, whose weights have no gradient.

    Args:
        hidden: number of inputs.
        n_actions: N.
        width: largest number of states of an action.
    """

    counts: Tensor

    def __init__(self, hidden: int, n_actions: int, width: int) -> None:
        super().__init__(hidden, n_actions * width)
        self.width = width
        self.register_buffer("counts", torch.ones(n_actions, dtype=torch.int64))

    def forward(self, state: Tensor) -> Tensor:
        """Logits `[n, N · width]` of inputs `[n, hidden]`."""
        in_use = torch.arange(self.width, device=state.device) < self.counts[:, None]
        return super().forward(state).masked_fill(~in_use.flatten(), -torch.inf)


class StateClassifier(FrameClassifier):
    """A window GRU whose outputs are states. Their statistics are buffers, so that they are saved with the weights.

    Args:
        dim: D of the features.
        n_actions: N.
        config: size of the network.
    """

    log_prior: Tensor
    means: Tensor

    def __init__(self, dim: int, n_actions: int, config: HmmNetworkConfig) -> None:
        super().__init__()
        self.width = config.max_states
        n_outputs = n_actions * self.width
        self.windows = WindowGru(dim, n_outputs, hidden=config.hidden, window=config.window)
        self.windows.output = self.output = StateOutput(config.hidden, n_actions, self.width)
        self.register_buffer("log_prior", torch.zeros(n_outputs, dtype=torch.float64))
        self.register_buffer("means", torch.ones(n_outputs, dtype=torch.float64))

    @property
    def states(self) -> States:
        """The states in use, on the CPU."""
        buffers = (self.output.counts, self.log_prior, self.means)
        counts, log_prior, means = (buffer.cpu().numpy() for buffer in buffers)
        return States(counts, self.width, log_prior, means)

    @states.setter
    def states(self, states: States) -> None:
        self.output.counts.copy_(torch.from_numpy(states.counts))
        self.log_prior.copy_(torch.from_numpy(states.log_prior))
        self.means.copy_(torch.from_numpy(states.means))

    def forward(self, features: Tensor, frames: Tensor | None = None) -> Tensor:
        """Log-probabilities `[n, N · width]` of the states in chosen frames `[n]` of features `[T, D]`, or in all."""
        if frames is None:
            log_probs: Tensor = self.windows(features)
            return log_probs
        around = self.windows.window // 2
        padded = functional.pad(features, (0, 0, around, around))
        offsets = torch.arange(self.windows.window, device=features.device)
        return self.windows.of_windows(padded[frames + offsets[:, None]])

    @torch.no_grad()
    def state_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N · width]` of the states, without gradients; -inf for states that are not in use."""
        log_probs: Tensor = self(features)
        return log_probs

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]` of the actions, without gradients: sums over their states."""
        log_probs: Tensor = self(features).unflatten(1, (-1, self.width)).logsumexp(2)
        return log_probs

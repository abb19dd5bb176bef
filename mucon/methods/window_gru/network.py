"""The window GRU: a recurrent network over a short window of frames around each frame.

Source: Richard, Kuehne, Iqbal and Gall, "NeuralNetwork-Viterbi: A Framework for Weakly Supervised Video Learning",
CVPR 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import check_ranges
from mucon.methods.frames import FrameClassifier, FrameNetworkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowGruConfig(FrameNetworkConfig):
    """Size of the network.

    Attributes:
        hidden: units.
        window: frames around and including each frame, odd.

    Raises:
        InputError: a value outside its range.
    """

    hidden: int = 64
    window: int = 21

    def __post_init__(self) -> None:
        check_ranges(
            "network.",
            [
                ("hidden", self.hidden, "at least 1", self.hidden >= 1),
                ("window", self.window, "odd and at least 1", self.window >= 1 and self.window % 2 == 1),
            ],
        )

    def build(self, dim: int, n_actions: int) -> FrameClassifier:
        """A network with fresh weights."""
        return WindowGru(dim, n_actions, hidden=self.hidden, window=self.window)


class WindowGru(FrameClassifier):
    """One gated recurrent layer over the window of each frame; its last state classifies the frame.

    Frames outside the recording are zeros. The products of the features with the input weights are computed once per
    frame, and the windows that contain a frame share them.

    Args:
        dim: D of the features.
        n_outputs: N, number of classes.
        hidden: units H.
        window: W frames, odd.
    """

    def __init__(self, dim: int, n_outputs: int, *, hidden: int = 64, window: int = 21) -> None:
        super().__init__()
        self.window = window
        self.cell = nn.GRUCell(dim, hidden)
        self.output = nn.Linear(hidden, n_outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]` of all frames of a recording `[T, D]`."""
        T, around = len(features), self.window // 2
        inputs = self._inputs(functional.pad(features, (0, 0, around, around)))
        return self._classify([inputs[k : k + T] for k in range(self.window)])

    def of_windows(self, windows: Tensor) -> Tensor:
        """Log-probabilities `[n, N]` of the centres of windows `[W, n, D]`; frames outside a recording are zeros."""
        return self._classify(self._inputs(windows).unbind())

    @torch.no_grad()
    def frame_log_probs(self, features: Tensor) -> Tensor:
        """Log-probabilities `[T, N]`, without gradients."""
        log_probs: Tensor = self(features)
        return log_probs

    def _inputs(self, features: Tensor) -> Tensor:
        """Inputs of the reset, update and new gates, `[..., 3H]`."""
        return functional.linear(features, self.cell.weight_ih, self.cell.bias_ih)

    def _classify(self, inputs: Sequence[Tensor]) -> Tensor:
        """Log-probabilities `[n, N]` from the gates' inputs `[n, 3H]` of each step; the bits are those of `nn.GRU`."""
        state = inputs[0].new_zeros(len(inputs[0]), self.cell.hidden_size)
        for given in inputs:
            own = functional.linear(state, self.cell.weight_hh, self.cell.bias_hh)
            (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, 1), own.chunk(3, 1)
            update = torch.sigmoid(own_update + update)
            new = torch.tanh(new + own_new * torch.sigmoid(own_reset + reset))
            state = (state - new) * update + new
        return torch.log_softmax(self.output(state), dim=1)

"""One step of the optimiser on flat memory. Nothing here reads a value back from the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mucon.errors import InputError
from mucon.model.network import MuConNetwork
from mucon.training_config import TrainingConfig

ADAM_DECAY = (0.9, 0.999)
"""Of the running means of the gradient and of its square; torch's defaults."""
ADAM_EPSILON = 1e-8


def parameter_groups(model: MuConNetwork) -> dict[str, list[nn.Parameter]]:
    """The two groups whose gradients are clipped separately.

    `encoder`: backbone, its norm, the encoder LSTM and its two linear layers; `decoder`: everything else.
    """
    branch = model.segment_branch
    encoder = [
        parameter
        for module in (model.backbone, branch.encoder, branch.initial_hidden, branch.initial_cell)
        for parameter in module.parameters()
    ]
    names = {id(parameter) for parameter in encoder}
    return {"encoder": encoder, "decoder": [p for p in model.parameters() if id(p) not in names]}


def _order_in_memory(model: MuConNetwork, group: list[nn.Parameter]) -> list[nn.Parameter]:
    """On a GPU the LSTM's weights stand first, then its biases: cuDNN then reads them without a copy."""
    lstm = list(model.segment_branch.encoder.parameters())
    if not group[0].is_cuda or not any(p is lstm[0] for p in group):
        return group
    first = sorted(lstm, key=lambda p: p.ndim == 1)
    return [*first, *(p for p in group if not any(p is q for q in lstm))]


class Optimiser:
    """Stochastic gradient descent without momentum, or Adam, on flat memory.

    All weights, and all gradients, stand behind each other in one tensor each (the modules' parameters are views), so
    that clipping and the step are a handful of operations whatever the number of layers. The weights may not be
    replaced from outside while it lives, only changed in place.

    Args:
        model: already on its device; its parameters become views.
        config: kind, weight decay and clipping.
    """

    def __init__(self, model: MuConNetwork, config: TrainingConfig) -> None:
        self.config = config
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = {name: _order_in_memory(model, group) for name, group in parameter_groups(model).items()}
        parameters = [p for group in groups.values() for p in group]
        self.weights = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradients = torch.zeros_like(self.weights)
        self.groups: dict[str, Tensor] = {}
        self.places: dict[str, tuple[slice, torch.Size]] = {}
        start = 0
        for name, group in groups.items():
            first = start
            for parameter in group:
                stop = start + parameter.numel()
                self.places[names[id(parameter)]] = (slice(start, stop), parameter.shape)
                parameter.data = self.weights[start:stop].view_as(parameter)
                parameter.grad = self.gradients[start:stop].view_as(parameter)
                start = stop
            self.groups[name] = self.gradients[first:start]
        n_moments = 2 if config.optimiser == "adam" else 0
        self.moments = [torch.zeros_like(self.weights) for _ in range(n_moments)]
        self.n_steps = 0

    @torch.no_grad()
    def step(self, learning_rate: float, n_videos: int = 1) -> Tensor:
        """Averages over the videos, clips, decays, steps, clears; gives the groups' norms `[2]` before clipping."""
        if n_videos > 1:
            self.gradients.div_(n_videos)
        norms = torch.stack([torch.linalg.vector_norm(group) for group in self.groups.values()])
        scales = (self.config.clip_norm / (norms + 1e-6)).clamp(max=1.0)
        for group, scale in zip(self.groups.values(), scales, strict=True):
            group.mul_(scale)
        self.n_steps += 1
        if self.moments:
            self._adam(learning_rate)
        else:
            self.weights.mul_(1 - learning_rate * self.config.weight_decay)
            self.weights.add_(self.gradients, alpha=-learning_rate)
        self.gradients.zero_()
        return norms

    def _adam(self, learning_rate: float) -> None:
        mean, square = self.moments
        gradients = self.gradients.add_(self.weights, alpha=self.config.weight_decay)
        mean.lerp_(gradients, 1 - ADAM_DECAY[0])
        square.mul_(ADAM_DECAY[1]).addcmul_(gradients, gradients, value=1 - ADAM_DECAY[1])
        for_mean, for_square = (1 - decay**self.n_steps for decay in ADAM_DECAY)
        deviation = square.sqrt().div_(for_square**0.5).add_(ADAM_EPSILON)
        self.weights.addcdiv_(mean, deviation, value=-learning_rate / for_mean)

    def state(self) -> dict[str, Tensor]:
        """What a later process needs beside the weights to go on to the same bits; nothing for `sgd`."""
        if not self.moments:
            return {}
        state = {
            f"{kind}.{name}": moment[place].view(shape)
            for kind, moment in zip(("mean", "square"), self.moments, strict=True)
            for name, (place, shape) in self.places.items()
        }
        return {**state, "n_steps": torch.tensor([self.n_steps])}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Takes over what `state` gave.

        Raises:
            InputError: it is not the state of such an optimiser for such a model.
        """
        own = self.state()
        shapes = {name: list(tensor.shape) for name, tensor in state.items()}
        if shapes != {name: list(tensor.shape) for name, tensor in own.items()}:
            raise InputError(
                f"the state of the optimiser {self.config.optimiser} is that of this model, what is there is "
                f"{_difference(shapes, own)}: restore a copy of optimiser.safetensors, or of the whole checkpoint"
            )
        for name, tensor in state.items():
            if name != "n_steps":
                own[name].copy_(tensor)
        if state:
            self.n_steps = int(state["n_steps"])


def _difference(found: Mapping[str, list[int]], own: Mapping[str, Tensor]) -> str:
    if not found:
        return "nothing"
    names = [name for name in sorted({*found, *own}) if name not in own or found.get(name) != list(own[name].shape)]
    return f"another one ({len(names)} tensors differ, first {names[0]})"

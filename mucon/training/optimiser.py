"""One step of the optimiser on flat memory. Nothing here reads a value back from the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from mucon.errors import InputError, Problem

ADAM_DECAY = (0.9, 0.999)
"""Decay of the running means of the gradient and of its square; torch's defaults."""
ADAM_EPSILON = 1e-8
ALIGNMENT = 16
"""Floats to a multiple of which each parameter begins on a GPU, whose products are slower on unaligned memory."""


class Descent(Protocol):
    """The settings that the optimiser reads, for example from `TrainingConfig`."""

    @property
    def optimiser(self) -> Literal["sgd", "adam", "adamw"]:
        """Stochastic gradient descent without momentum, Adam, or Adam with decoupled weight decay."""

    @property
    def weight_decay(self) -> float:
        """Weight decay of every parameter, at least 0."""

    @property
    def clip_norm(self) -> float | None:
        """Largest gradient norm of a group; None does not clip."""


class Optimiser:
    """Stochastic gradient descent without momentum, Adam or AdamW, on flat memory.

    All weights are stored one after another in one tensor, and so are all gradients (the modules' parameters are
    views), so that clipping and the step take a handful of operations for any number of layers. While the optimiser
    is in use, the weights may be changed in place, but not replaced.

    Args:
        model: on its device; its parameters become views.
        config: kind, weight decay and clipping.
        groups: name -> parameters that are clipped together, in their order in memory; together all parameters of the
            model. By default one group, `all`.
        alignment: each parameter begins at a multiple of so many floats, after zeros that stay zero; by default
            `ALIGNMENT` on a GPU and 1 on a CPU, where zeros would change the last bits of the norms.
    """

    def __init__(
        self,
        model: nn.Module,
        config: Descent,
        groups: Mapping[str, Sequence[nn.Parameter]] | None = None,
        *,
        alignment: int | None = None,
    ) -> None:
        self.config = config
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = {"all": list(model.parameters())} if groups is None else groups
        parameters = [p for group in groups.values() for p in group]
        multiple = alignment or (ALIGNMENT if parameters[0].is_cuda else 1)
        self.weights = torch.cat(
            [nn.functional.pad(p.detach().reshape(-1), (0, -p.numel() % multiple)) for p in parameters]
        )
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
                start = stop + (-parameter.numel() % multiple)
            self.groups[name] = self.gradients[first:start]
        n_moments = 0 if config.optimiser == "sgd" else 2
        self.moments = [torch.zeros_like(self.weights) for _ in range(n_moments)]
        self.n_steps = 0

    @torch.no_grad()
    def step(self, learning_rate: float, n_videos: int = 1) -> Tensor:
        """Averages the gradients over the videos, clips, decays, steps and clears them.

        Returns:
            Norm of each group's gradient before clipping, `[groups]`.
        """
        if n_videos > 1:
            self.gradients.div_(n_videos)
        norms = torch.stack([torch.linalg.vector_norm(group) for group in self.groups.values()])
        if self.config.clip_norm is not None:
            scales = (self.config.clip_norm / (norms + 1e-6)).clamp(max=1.0)
            for group, scale in zip(self.groups.values(), scales, strict=True):
                group.mul_(scale)
        self.n_steps += 1
        if self.config.optimiser == "adam":
            self.gradients.add_(self.weights, alpha=self.config.weight_decay)
        else:
            self.weights.mul_(1 - learning_rate * self.config.weight_decay)
        if self.moments:
            self._adam(learning_rate)
        else:
            self.weights.add_(self.gradients, alpha=-learning_rate)
        self.gradients.zero_()
        return norms

    def _adam(self, learning_rate: float) -> None:
        mean, square = self.moments
        mean.lerp_(self.gradients, 1 - ADAM_DECAY[0])
        square.mul_(ADAM_DECAY[1]).addcmul_(self.gradients, self.gradients, value=1 - ADAM_DECAY[1])
        for_mean, for_square = (1 - decay**self.n_steps for decay in ADAM_DECAY)
        deviation = square.sqrt().div_(for_square**0.5).add_(ADAM_EPSILON)
        self.weights.addcdiv_(mean, deviation, value=-learning_rate / for_mean)

    def restart(self) -> None:
        """Forgets the running means, for weights that are not a step from the ones before."""
        for moment in self.moments:
            moment.zero_()
        self.n_steps = 0

    def state(self) -> dict[str, Tensor]:
        """The tensors that another process needs besides the weights to resume with the same bits; none for `sgd`."""
        if not self.moments:
            return {}
        state = {
            f"{kind}.{name}": moment[place].view(shape)
            for kind, moment in zip(("mean", "square"), self.moments, strict=True)
            for name, (place, shape) in self.places.items()
        }
        return {**state, "n_steps": torch.tensor([self.n_steps])}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Copies a state that `state` returned.

        Raises:
            InputError: the state belongs to another optimiser or model.
        """
        own = self.state()
        different = [
            name
            for name in sorted({*state, *own})
            if name not in own or name not in state or state[name].shape != own[name].shape
        ]
        if different:
            raise InputError(_mismatch(self.config.optimiser, different, state))
        for name, tensor in state.items():
            if name != "n_steps":
                own[name].copy_(tensor)
        if state:
            self.n_steps = int(state["n_steps"])


def _mismatch(kind: str, different: Sequence[str], state: Mapping[str, Tensor]) -> Problem:
    hint = "restore a copy of optimiser.safetensors or of the whole checkpoint"
    if not state:
        return Problem(rule="missing", place="optimiser", message=f"no state of the optimiser {kind}", hint=hint)
    message = f"not the state of the optimiser {kind} for this model ({len(different)} tensors differ)"
    return Problem(rule="mismatch", place="optimiser", value=different[0], message=message, hint=hint)

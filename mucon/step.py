"""One video's losses, and the optimiser of one step. Nothing here reads a value back from the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mucon import losses, masks
from mucon.losses import LossConfig
from mucon.masks import MaskConfig
from mucon.model.network import MuConNetwork, TeacherForced
from mucon.schedule import TrainingConfig

TERMS = ("total", "mutual_consistency", "transcript", "length", "smoothing")
"""Names of the losses of a step, in the order of `video_losses`' vector."""


def video_losses(
    outputs: TeacherForced, transcript: Tensor, mask_config: MaskConfig, config: LossConfig
) -> dict[str, Tensor]:
    """The terms of a weakly labelled video's loss and their weighted sum `total`, scalars of float32 or wider.

    Args:
        outputs: of the network with teacher forcing.
        transcript: `[M]` int64.
        mask_config: how segments become masks.
        config: weights and choices. A term of weight 0 is still reported.

    Source: paper, section 5.2: L = L_mu + L_t + alpha L_l + beta L_s.
    """
    latent_logits, log_lengths = _at_least_float32(outputs.latent_logits), _at_least_float32(outputs.log_lengths)
    transcript_logits = _at_least_float32(outputs.transcript_logits)
    n_frames = len(outputs.latent_of_frame)
    end = transcript.new_full((1,), transcript_logits.shape[1] - 1)
    lengths = masks.absolute_lengths(log_lengths, n_frames)
    segment_masks = masks.segment_masks(lengths, n_frames, mask_config)
    latent_masks = masks.frames_per_latent(segment_masks, outputs.latent_of_frame, len(latent_logits))
    if config.consistency == "segment":
        divisors = _divisors(lengths, latent_masks, mask_config, config)
        mutual = losses.segment_consistency(latent_logits, latent_masks, transcript, divisors, config.over_segments)
    else:
        mutual = losses.frame_consistency(latent_logits, latent_masks, transcript, n_frames)
    terms = {
        "mutual_consistency": mutual,
        "transcript": losses.transcript_loss(transcript_logits, torch.cat((transcript, end))),
        "length": losses.length_loss(log_lengths, config.length_width),
        "smoothing": losses.smoothing_loss(latent_logits, n_frames, config.smoothing_threshold, config.smoothing_rule),
    }
    total = sum((getattr(config, name) * term for name, term in terms.items()), latent_logits.new_zeros(()))
    return {"total": total, **terms}


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _divisors(lengths: Tensor, latent_masks: Tensor, mask_config: MaskConfig, config: LossConfig) -> Tensor:
    if config.normalise == "mask_sum":
        divisors = latent_masks.sum(1).clamp(min=1e-6)
    elif config.normalise == "stretched_length":
        divisors = masks.stretched(lengths, lengths, mask_config)[1]
    else:
        divisors = lengths
    return divisors.detach() if config.detach_length else divisors


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


class Optimiser:
    """Stochastic gradient descent without momentum on flat memory: it has no state beside the weights.

    All weights, and all gradients, stand behind each other in one tensor each (the modules' parameters are views), so
    that clipping and the step are a handful of operations whatever the number of layers.

    Args:
        model: already on its device; its parameters become views.
        config: weight decay and clipping.
    """

    def __init__(self, model: MuConNetwork, config: TrainingConfig) -> None:
        self.config = config
        groups = parameter_groups(model)
        parameters = [p for group in groups.values() for p in group]
        self.weights = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradients = torch.zeros_like(self.weights)
        self.groups: dict[str, Tensor] = {}
        start = 0
        for name, group in groups.items():
            first = start
            for parameter in group:
                stop = start + parameter.numel()
                parameter.data = self.weights[start:stop].view_as(parameter)
                parameter.grad = self.gradients[start:stop].view_as(parameter)
                start = stop
            self.groups[name] = self.gradients[first:start]

    @torch.no_grad()
    def step(self, learning_rate: float) -> Tensor:
        """Clips, decays, steps and clears the gradients; returns the groups' norms `[2]` before clipping."""
        norms = torch.stack([torch.linalg.vector_norm(group) for group in self.groups.values()])
        scales = (self.config.clip_norm / (norms + 1e-6)).clamp(max=1.0)
        for group, scale in zip(self.groups.values(), scales, strict=True):
            group.mul_(scale)
        self.weights.mul_(1 - learning_rate * self.config.weight_decay)
        self.weights.add_(self.gradients, alpha=-learning_rate)
        self.gradients.zero_()
        return norms


def loss_vector(terms: Mapping[str, Tensor], names: Sequence[str] = TERMS) -> Tensor:
    """The terms as one detached vector `[K]`, in the order of `names`."""
    return torch.stack([terms[name].detach() for name in names])

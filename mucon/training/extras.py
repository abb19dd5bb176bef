"""The options beyond the paper in a step of MuCon, other than the network's own labels."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mucon import masks
from mucon.config import TrainConfig
from mucon.errors import InputError, Problem
from mucon.extensions.augmentation import augmented
from mucon.extensions.losses import class_means, presence_loss, prototype_loss
from mucon.model.backbone import latent_index
from mucon.model.network import NetworkSize, TeacherForced
from mucon.training.step import at_least_float32

PROTOTYPES = "prototypes"
KNOWN = "prototypes.known"
"""Names of the tensors with the prototypes of the actions, and with the actions that have one."""


class Extras:
    """Additional losses and changes of the features; all of them are off by default, and then nothing changes.

    Args:
        config: configuration of the run.
        size: size of the network.
        device: device of the prototypes.
    """

    def __init__(self, config: TrainConfig, size: NetworkSize, device: torch.device) -> None:
        self.config, self.epochs = config, config.training.epochs
        self.prototypes = torch.zeros(size.n_actions, config.backbone.channels, device=device)
        self.known = torch.zeros(size.n_actions, dtype=torch.bool, device=device)

    def names(self) -> list[str]:
        """Names of the additional losses, which every video has."""
        weights = {"presence": self.config.video_level.weight, "prototype": self.config.prototypes.weight}
        return [name for name, weight in weights.items() if weight > 0]

    def features(self, features: Tensor) -> Tensor:
        """The features `[T', D]` of which the network's outputs are computed, for those of the recording `[T, D]`."""
        return augmented(features, self.config.augmentation)

    def outputs(self, outputs: TeacherForced, n_frames: int) -> TeacherForced:
        """The outputs at the T frames of the recording, whatever the number of frames of its changed features."""
        if len(outputs.latent_of_frame) == n_frames:
            return outputs
        latent_of_frame = latent_index(n_frames, len(outputs.latent_logits), device=outputs.latent_logits.device)
        return outputs._replace(latent_of_frame=latent_of_frame)

    def with_terms(
        self, terms: Mapping[str, Tensor], outputs: TeacherForced, transcript: Tensor, epoch: int
    ) -> dict[str, Tensor]:
        """The terms of a video's loss with the additional ones, which count in the total.

        Args:
            terms: those of `mucon.training.step.video_losses`.
            outputs: of the network.
            transcript: `[M]` int64.
            epoch: counted from 0.
        """
        video, prototypes = self.config.video_level, self.config.prototypes
        total, more = terms["total"], {}
        is_alone = video.is_alone(epoch, self.epochs)
        if video.weight > 0:
            more["presence"] = presence_loss(at_least_float32(outputs.latent_logits), transcript, video.top)
            total = video.weight * more["presence"] + (0 if is_alone else total)
        if prototypes.weight > 0:
            more["prototype"] = self._prototype_loss(outputs, transcript)
            total = total if is_alone else total + prototypes.weight * more["prototype"]
        return {**terms, "total": total, **more}

    def _prototype_loss(self, outputs: TeacherForced, transcript: Tensor) -> Tensor:
        """The loss of a video; its means then enter the prototypes."""
        assert outputs.latent is not None, "a network that trains has one latent sequence"
        n_frames, latent = len(outputs.latent_of_frame), at_least_float32(outputs.latent)
        lengths = masks.absolute_lengths(at_least_float32(outputs.log_lengths).detach(), n_frames)
        soft = masks.segment_masks(lengths, n_frames, self.config.mask)
        latent_masks = masks.frames_per_latent(soft, outputs.latent_of_frame, len(latent))
        means, present = class_means(latent, latent_masks, transcript, len(self.known))
        config = self.config.prototypes
        loss = prototype_loss(means, present, self.prototypes, self.known, config.temperature)
        moved = torch.where(self.known[:, None], self.prototypes.lerp(means.detach(), 1 - config.decay), means.detach())
        self.prototypes = torch.where(present[:, None], moved, self.prototypes)
        self.known = self.known | present
        return loss

    def state(self) -> dict[str, Tensor]:
        """The prototypes for the checkpoint; none if they are off."""
        on = self.config.prototypes.weight > 0
        return {PROTOTYPES: self.prototypes, KNOWN: self.known} if on else {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned.

        Raises:
            InputError: no prototypes, or some of another shape.
        """
        for name, own in self.state().items():
            if name not in state or state[name].shape != own.shape or state[name].dtype != own.dtype:
                hint = "restore a copy of the checkpoint"
                raise InputError(Problem(rule="damaged", place=name, message="no prototypes of this model", hint=hint))
            own.copy_(state[name])

"""The learner of ATBA."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mucon.arrays import Floats, Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import PoissonPerClass
from mucon.errors import InputError, Problem
from mucon.methods.atba.alignment import boundary_lengths, pseudo_labels
from mucon.methods.atba.config import AtbaConfig
from mucon.methods.atba.losses import frame_loss, token_loss, video_loss
from mucon.methods.atba.network import sampled_frames
from mucon.methods.weak import WeakLearner
from mucon.training.optimiser import Optimiser


class AtbaLearner(WeakLearner):
    """Losses of the video, of the frames with pseudo labels, and of features beside class tokens.

    The pseudo labels are computed on the CPU: in the second stage each step reads the posteriors back once. For
    `alignment.kind=exact` the state contains the class means of the epoch (in sampled frames), and the frames and
    segments of each class in the labels so far, which give the means of the next epoch.
    """

    config: AtbaConfig
    TERMS = ("total", "video", "frame", "glc")

    def prepare(self) -> None:
        """Targets of the videos, weights of the classes, and the class means of an exact alignment."""
        config = self.config
        self.accumulate = config.training.accumulate
        self.norms = dict.fromkeys(self.optimiser.groups, -(-len(self.videos) // self.accumulate))
        n_actions = self.vocabulary.n_actions
        present = torch.zeros(len(self.transcripts), n_actions)
        for row, transcript in zip(present, self.transcripts, strict=True):
            row[torch.from_numpy(transcript)] = 1
        weights = torch.ones(n_actions)
        weights[list(self.vocabulary.background_ids)] = config.loss.background_weight
        self.present, self.class_weights = present.to(self.device), weights.to(self.device)
        self.lengths: dict[str, Tensor] = {}
        if config.alignment.kind == "exact":
            names = ("class_means", "frames", "segments")
            self.lengths = {name: torch.zeros(n_actions, dtype=torch.float64) for name in names}
            self.lengths["class_means"].fill_(1)

    def state(self) -> Mapping[str, Tensor]:
        """Class means, and the frames and segments of each class in the epoch's labels so far."""
        return self.lengths

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned.

        Raises:
            InputError: the state of another alignment or vocabulary.
        """
        shapes, own = ({name: tuple(one.shape) for name, one in tensors.items()} for tensors in (state, self.lengths))
        if shapes != own:
            hint = "restore a copy of learner.safetensors or of the whole checkpoint"
            raise InputError(Problem(rule="mismatch", place="learner", value=shapes, expected=str(own), hint=hint))
        for name, tensor in state.items():
            self.lengths[name].copy_(tensor)

    def losses(self, epoch: int) -> Mapping[str, int]:
        """The first stage has the loss of the video alone."""
        names = self.TERMS if self._in_second_stage(epoch) else self.TERMS[:2]
        return dict.fromkeys(names, len(self.videos))

    def _in_second_stage(self, epoch: int) -> bool:
        return epoch >= self.config.training.first_stage

    def begin_epoch(self, epoch: int) -> None:
        """A fresh optimiser for the second stage, and the class means of the labels of the epoch before."""
        if epoch == self.config.training.first_stage:
            self.optimiser = Optimiser(self.network, self.config.training)
        if self.lengths and bool(self.lengths["segments"].any()):
            means, frames, segments = self.lengths.values()
            means.copy_(torch.where(segments > 0, frames / segments.clamp(min=1), frames.sum() / segments.sum()))
            frames.zero_()
            segments.zero_()

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`. Reads the posteriors back in the second stage."""
        sampled = sampled_frames(len(features), self.config.network.sample_rate, self.device, at_random=True)
        outputs = self.network(features[sampled])
        video = video_loss(outputs.video_logits, self.present[index])
        terms: tuple[Tensor, ...] = (video, video)
        if self._in_second_stage(epoch):
            labels = self._pseudo_labels(index, outputs.frame_logits.detach())
            frame = frame_loss(outputs.frame_logits, labels, self.class_weights)
            glc = token_loss(outputs.frames, outputs.tokens, labels)
            terms = (video + frame + self.config.loss.glc * glc, video, frame, glc)
        torch.autograd.backward(terms[0])
        losses = torch.stack(terms).detach()
        in_group = step % self.accumulate + 1
        complete = in_group == self.accumulate or step + 1 == len(self.videos)
        norms = self.optimiser.step(rate, in_group) if complete else losses.new_zeros(len(self.norms))
        return torch.cat((losses, norms))

    def _pseudo_labels(self, index: int, logits: Tensor) -> Tensor:
        """The action of each sampled frame `[T']`, given its logits `[T', N]`."""
        transcript = self.transcripts[index]
        posteriors = torch.softmax(logits, dim=1).cpu().numpy()
        labels, lengths = pseudo_labels(posteriors, transcript, self._align)
        for name, weights in (("frames", lengths), ("segments", None)) if self.lengths else ():
            counts = np.bincount(transcript, weights=weights, minlength=self.vocabulary.n_actions)
            self.lengths[name] += torch.from_numpy(counts)
        return torch.from_numpy(labels).to(self.device)

    def _align(self, posteriors: Floats, transcript: Ints) -> Ints:
        """Lengths `[M]` of the segments for posteriors `[T', N]`."""
        if self.config.alignment.kind == "atba":
            return boundary_lengths(posteriors, transcript, self.config.alignment)
        prior = PoissonPerClass(self.lengths["class_means"].numpy())
        return best_lengths(np.log(np.maximum(posteriors, 1e-30)), transcript, prior)[0]

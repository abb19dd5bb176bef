"""The learner of methods that align each video with the window GRU's posteriors before they learn from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mucon.arrays import Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.fusion import PUBLISHED_LENGTH, TrainingFacts
from mucon.decoding.length_priors import PoissonPerClass
from mucon.decoding.published import published_lengths
from mucon.errors import Diverged, InputError, Problem, condensed
from mucon.methods.weak import WeakLearner
from mucon.methods.window_gru.buffer import LabelBuffer
from mucon.methods.window_gru.config import AlignedConfig
from mucon.methods.window_gru.network import WindowGru

STATE = "labels"


class Aligned(NamedTuple):
    """An alignment of a video's transcript: labels `[T]` and lengths `[M]`."""

    labels: Ints
    lengths: Ints


class AlignedLearner(WeakLearner):
    """Aligns with posteriors divided by the class prior and with mean lengths, both from the buffer of labels.

    Raises:
        InputError: training videos that the published decoder cannot align, or a checkpoint of another run.
    """

    config: AlignedConfig
    network: WindowGru

    def prepare(self) -> None:
        """Creates an empty buffer."""
        if self.config.alignment.decoder == "published":
            self._check_published_decoder()
        self.buffer = LabelBuffer(self.videos, self.vocabulary.n_actions, self.seed)

    def state(self) -> Mapping[str, Tensor]:
        """The labels of the buffer."""
        return {STATE: torch.from_numpy(self.buffer.labels).int()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores the buffer.

        Raises:
            InputError: no labels, or those of other videos.
        """
        labels, expected = state.get(STATE), self.buffer.labels.shape
        N = self.vocabulary.n_actions
        if labels is None or labels.shape != expected or not bool(((labels >= 0) & (labels < N)).all()):
            message = "no decoded labels of these videos"
            hint = "restore a copy of learner.safetensors or of the whole checkpoint"
            raise InputError(Problem(rule="mismatch", place="learner", value=STATE, message=message, hint=hint))
        self.buffer.restore(labels.long().numpy(), self.progress.epoch, self.progress.step_in_epoch)

    def align(self, index: int, log_probs: Tensor, epoch: int) -> Aligned:
        """Aligns a video's transcript to log posteriors `[T, N]`, which are read back from the device.

        Raises:
            Diverged: a posterior is NaN or infinite.
        """
        values = log_probs.detach().cpu().numpy()
        if not np.isfinite(values).all():
            raise Diverged(
                f"training diverged in epoch {epoch + 1} at video {self.videos[index].id!r}: posteriors became NaN or "
                "infinite; lower training.learning_rate"
            )
        if self.config.alignment.class_prior:
            values = values - np.log(self.buffer.prior())
        transcript, means = self.transcripts[index], self.buffer.mean_lengths()
        if self.config.alignment.decoder == "published":
            step = self.config.alignment.step
            labels, lengths, _ = published_lengths(values, transcript, means, step=step, max_length=PUBLISHED_LENGTH)
            return Aligned(labels, lengths)
        lengths, _ = best_lengths(values, transcript, PoissonPerClass(means))
        return Aligned(np.repeat(transcript, lengths), lengths)

    def facts(self) -> TrainingFacts:
        """The prior and the mean lengths of the last decoded labels."""
        N = self.vocabulary.n_actions
        prior = self.buffer.prior() if self.config.alignment.class_prior else np.full(N, 1 / N)
        return TrainingFacts(
            transcripts=tuple(sorted({video.transcript for video in self.videos})),
            mean_lengths=tuple(self.buffer.mean_lengths().tolist()),
            frame_shares=tuple(prior.tolist()),
        )

    def _check_published_decoder(self) -> None:
        step = self.config.alignment.step
        cap = PUBLISHED_LENGTH // step
        problems = [
            Problem(
                rule="mismatch",
                place=f"{video.id}: transcript",
                value=len(video.transcript),
                expected=f"{-(-(video.n_frames // step) // max(cap, 1))} to {video.n_frames // step} segments of whole "
                f"steps of {step} frames and at most {PUBLISHED_LENGTH} frames",
                hint="set alignment.step, or alignment.decoder=exact",
            )
            for video in self.videos
            if not len(video.transcript) <= video.n_frames // step <= len(video.transcript) * cap
        ]
        if problems:
            raise InputError(condensed(problems))

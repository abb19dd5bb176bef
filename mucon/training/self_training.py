"""The labels that a run of MuCon gives its own training videos, see `mucon.extensions.config.SelfTrainingConfig`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.arrays import Ints
from mucon.checkpoint_files import Progress
from mucon.config import TrainConfig
from mucon.errors import Diverged, InputError, Problem
from mucon.extensions.labels import Labeller, first_labeller
from mucon.extensions.soft_alignment import candidates, soft_alignment_loss
from mucon.model.network import TeacherForced
from mucon.training.step import SUPERVISED_TERMS, FrameLabels, at_least_float32
from mucon.videos import Video

LENGTHS = "self_training.lengths"
"""Name of the tensor with the lengths of all segments of all videos, in their order."""


class SelfTraining:
    """Labels of the videos by index, which change at the start of some epochs; none before self-training begins.

    Labelled videos keep their own labels, whose lengths count in what the others are aligned by. The lengths of the
    others are never read.

    Args:
        config: configuration of the run.
        videos: the videos of an epoch.
        n_actions: N.
        device: device of the labels.

    Attributes:
        loss: the settings of the loss of videos with the network's own labels.
    """

    def __init__(self, config: TrainConfig, videos: Sequence[Video], n_actions: int, device: torch.device) -> None:
        self.config, self.soft, self.epochs = config.self_training, config.soft_alignment, config.training.epochs
        self.first = self.config.first_epochs(self.epochs)["settle"]
        self.videos, self.n_actions, self.device = videos, n_actions, device
        self.n_weak = sum(not video.labelled for video in videos)
        self.transcripts = [np.asarray(video.transcript, dtype=np.int64) for video in videos]
        self.loss = replace(
            config.loss,
            frame=self.config.weight,
            supervised_length=self.config.supervised_length,
            length_on_labelled=True,
        )
        self._use([])

    def labels(self, index: int) -> FrameLabels | None:
        """The network's own labels of a video; None for a labelled one, and before self-training begins."""
        return self.own[index] if self.own else None

    def losses(self, epoch: int) -> dict[str, int]:
        """Name of each loss that comes with the labels of an epoch -> number of videos that have it."""
        if epoch < self.first:
            return {}
        soft = {"soft_alignment": self.n_weak} if self.soft.weight > 0 and self.n_weak else {}
        return {**dict.fromkeys(SUPERVISED_TERMS, len(self.videos)), **soft}

    def with_terms(self, terms: dict[str, Tensor], index: int, outputs: TeacherForced, epoch: int) -> dict[str, Tensor]:
        """The terms of a video's loss with the loss of soft alignments near its labels, which counts in the total.

        Args:
            terms: those of `mucon.training.step.video_losses`.
            index: of the video.
            outputs: of the network.
            epoch: counted from 0.
        """
        if index not in self.near:
            return terms
        log_probs = torch.log_softmax(at_least_float32(outputs.latent_logits), dim=1)[outputs.latent_of_frame]
        temperature = self.soft.temperature_of(epoch, self.first, self.epochs)
        loss = soft_alignment_loss(log_probs, *self.near[index], temperature)
        return {**terms, "total": terms["total"] + self.soft.weight * loss, "soft_alignment": loss}

    def begin_epoch(self, epoch: int, log_probs: Callable[[Video], NDArray[np.floating]]) -> None:
        """Labels the videos again if an epoch asks for it.

        Args:
            epoch: counted from 0.
            log_probs: the log probabilities `[T, N]` of a video's frames, by the network in evaluation mode.

        Raises:
            Diverged: log probabilities that are NaN or infinite.
        """
        phase = self.config.phase(epoch, self.epochs)
        if phase is None or not self.config.refreshes(epoch, self.epochs):
            return
        prior, divided = self.config.prior(phase), phase == "divided"
        labeller, lengths = first_labeller(self.n_actions), self.lengths
        if not lengths and (divided or prior != "none"):
            lengths = self._align(labeller, log_probs, epoch)
        if lengths:
            segments = list(zip(self.transcripts, lengths, strict=True))
            labeller = Labeller.of(segments, self.n_actions, prior, divided=divided)
        self._use(self._align(labeller, log_probs, epoch))

    def _align(self, labeller: Labeller, log_probs: Callable[[Video], NDArray[np.floating]], epoch: int) -> list[Ints]:
        lengths = []
        for video, transcript in zip(self.videos, self.transcripts, strict=True):
            if video.labelled:
                lengths.append(np.asarray(video.lengths, dtype=np.int64))
                continue
            evidence = log_probs(video)
            try:
                lengths.append(labeller.lengths(evidence, transcript))
            except InputError as error:
                raise Diverged(
                    f"training diverged before epoch {epoch + 1} at video {video.id!r}: the log probabilities of its "
                    "frames became NaN or infinite; lower training.learning_rate"
                ) from error
        return lengths

    def _use(self, lengths: Sequence[Ints]) -> None:
        """Takes lengths `[M]` of each video, or none, as the labels."""
        self.lengths = lengths
        self.own = [
            None if video.labelled else _frame_labels(transcript, own, self.device)
            for video, transcript, own in zip(self.videos, self.transcripts, lengths, strict=False)
        ]
        self.near = {
            index: self._near(self.transcripts[index], lengths[index])
            for index, own in enumerate(self.own)
            if own is not None and self.soft.weight > 0
        }

    def _near(self, transcript: Ints, lengths: Ints) -> tuple[Tensor, Tensor, Tensor]:
        """The transcript of a video, the possible ends of its segments, and which of them exist."""
        window = self.soft.frames(int(lengths.sum()), len(lengths))
        places, exist = candidates(lengths, window=2 * window, step=window)
        actions, ends, are_ends = (torch.from_numpy(one).to(self.device) for one in (transcript, places, exist))
        return actions, ends, are_ends

    def state(self) -> dict[str, Tensor]:
        """The labels for the checkpoint; empty before self-training begins."""
        return {LENGTHS: torch.from_numpy(np.concatenate(self.lengths))} if self.lengths else {}

    def load_state(self, state: Mapping[str, Tensor], progress: Progress) -> None:
        """Restores what `state` returned at a position of the run.

        Raises:
            InputError: no labels where self-training has begun, or labels that do not fit the videos.
        """
        if (progress.epoch, progress.step_in_epoch) <= (self.first, 0):
            return
        sizes = [len(transcript) for transcript in self.transcripts]
        stored = state.get(LENGTHS, torch.empty(0))
        is_whole = stored.dtype == torch.int64 and stored.shape == (sum(sizes),) and not bool((stored < 0).any())
        lengths = np.split(stored.numpy(), np.cumsum(sizes)[:-1]) if is_whole else []
        if [int(own.sum()) for own in lengths] != [video.n_frames for video in self.videos]:
            message, hint = "no labels of the training videos, or others", "restore a copy of the checkpoint"
            raise InputError(Problem(rule="damaged", place=LENGTHS, message=message, hint=hint))
        self._use(lengths)


def _frame_labels(transcript: Ints, lengths: Ints, device: torch.device) -> FrameLabels:
    labels = np.repeat(transcript, lengths)
    return FrameLabels(torch.from_numpy(labels).to(device), torch.from_numpy(lengths).to(device))

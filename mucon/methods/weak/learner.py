"""The learner of methods that learn from transcripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.arrays import Ints
from mucon.checkpoint_files import LEARNER, parsing
from mucon.decoding.alignment import best_lengths
from mucon.decoding.class_means import class_mean_lengths, frame_shares
from mucon.decoding.fusion import TrainingFacts
from mucon.decoding.length_priors import Flat
from mucon.methods.frames.network_learner import NetworkLearner
from mucon.methods.weak.config import WeakConfig
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary


class WeakLearner(NetworkLearner):
    """A network that learns from transcripts; with `TERMS` and `step`, a `mucon.training.loop.Learner`.

    A subclass that keeps tensors besides the weights creates them in `prepare`, and extends `state` and `load_state`.

    Args:
        method: name of the method.
        config: configuration of the run.
        videos: all training videos, ordered by id. Their lengths are used for the scores during training alone; the
            videos of the epochs have none.
        vocabulary: the actions.
        folder: the run folder; the state is that of `folder/checkpoint` if it exists.
        device: device of the network.
        dim: D of the features.
        source: the store of the videos.

    Raises:
        InputError: a checkpoint of another run.
    """

    config: WeakConfig

    def __init__(
        self,
        method: str,
        config: WeakConfig,
        videos: Sequence[Video],
        vocabulary: Vocabulary,
        folder: Path,
        device: torch.device,
        dim: int,
        source: Source | None = None,
    ) -> None:
        silent = [dataclasses.replace(video, lengths=None, labelled=False) for video in videos]
        super().__init__(method, config, videos, silent, vocabulary, folder, device, dim, source)
        self.transcripts: list[Ints] = [np.asarray(video.transcript, dtype=np.int64) for video in silent]
        self.prepare()
        if self.resumed is not None and not self.resumed.progress.finished:
            with parsing(folder / "checkpoint" / LEARNER):
                self.load_state(self.resumed.learner)

    def prepare(self) -> None:
        """Creates the state at the start of a run; none by default."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned; nothing by default.

        Raises:
            InputError: the state of another run; likewise `LookupError`, `TypeError` and `ValueError`.
        """

    def by_video(self, numbers: Tensor) -> list[Ints]:
        """Numbers of all segments, one video after another -> those `[M]` of each video.

        Raises:
            ValueError: not one number of at least 1 for each segment, or more in a video than it has frames.
        """
        ends = np.cumsum([len(transcript) for transcript in self.transcripts])
        if numbers.dtype != torch.int64 or numbers.shape != ends[-1:] or int(numbers.min()) < 1:
            raise ValueError("not a number of each segment of these videos")
        split = np.split(numbers.numpy(), ends[:-1])
        if any(own.sum() > video.n_frames for own, video in zip(split, self.videos, strict=True)):
            raise ValueError("more than the frames of a video")
        return split

    def log_probs(self, index: int) -> NDArray[np.float32]:
        """Log posteriors `[T, N]` of a training video on the CPU, by the network in its present mode."""
        features = self.videos[index].features(self.device)
        values: NDArray[np.float32] = self.network.frame_log_probs(features).cpu().numpy()
        return values

    def aligned(self, index: int) -> Ints:
        """Lengths `[M]` of a training video's segments for the facts; by default those that fit the frames best."""
        return best_lengths(self.log_probs(index), self.transcripts[index], Flat())[0]

    def facts(self) -> TrainingFacts:
        """Transcripts, and mean lengths and shares of the actions in the network's own alignments."""
        lengths = [self.aligned(index) for index in range(len(self.videos))]
        return facts_of(self.transcripts, lengths, self.vocabulary.n_actions)


def facts_of(transcripts: Sequence[Ints], lengths: Sequence[Ints], n_actions: int) -> TrainingFacts:
    """Facts about aligned training videos.

    Args:
        transcripts: each `[M]`.
        lengths: each `[M]` frames.
        n_actions: N.
    """
    segments = list(zip(transcripts, lengths, strict=True))
    return TrainingFacts(
        transcripts=tuple(sorted({tuple(transcript.tolist()) for transcript in transcripts})),
        mean_lengths=tuple(class_mean_lengths(segments, n_actions).tolist()),
        frame_shares=tuple(frame_shares(segments, n_actions).tolist()),
    )

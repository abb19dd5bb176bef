"""The learner of the HMM/RNN: expectation maximisation with hard alignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional

from mucon.arrays import Floats, Ints
from mucon.decoding.class_means import class_mean_lengths
from mucon.methods.hmm_rnn.config import HmmConfig
from mucon.methods.hmm_rnn.network import StateClassifier
from mucon.methods.hmm_rnn.states import States, labels
from mucon.methods.weak import WeakLearner
from mucon.training.progress import evaluating


class HmmLearner(WeakLearner):
    """A window GRU that learns the states of the latest alignment."""

    TERMS: ClassVar[tuple[str, ...]] = ("total",)
    config: HmmConfig
    network: StateClassifier

    def prepare(self) -> None:
        """Starts from equal segments, and from equal numbers of states."""
        frames, segments = [video.n_frames for video in self.videos], [len(one) for one in self.transcripts]
        per_segment = sum(frames) / sum(segments)
        equal = [np.diff(np.arange(M + 1) * T // M) for T, M in zip(frames, segments, strict=True)]
        self._divide(equal, np.full(self.vocabulary.n_actions, np.ceil(self._n_states(per_segment))))

    def begin_epoch(self, epoch: int) -> None:
        """Aligns all videos again at the start of every `realign_every` epochs.

        The posteriors of each video are read back from the device once.
        """
        if not self.config.looks_again(epoch):
            return
        with evaluating(self.network):
            lengths = [self.aligned(index) for index in range(len(self.videos))]
        means = class_mean_lengths(zip(self.transcripts, lengths, strict=True), self.vocabulary.n_actions)
        self._divide(lengths, np.floor(self._n_states(means)))

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video, of one step of the optimiser per batch of frames; see `Learner.step`.

        The loss is the mean cross-entropy of the states; gradient norms are means over the batches.
        """
        T, batch = len(features), self.config.training.minibatch
        batches = [None] if batch >= T else torch.split(torch.randperm(T, device=features.device), batch)
        total, norms = features.new_zeros(1), []
        for frames in batches:
            targets = self.targets[index] if frames is None else self.targets[index][frames]
            loss = functional.nll_loss(self.network(features, frames), targets)
            torch.autograd.backward(loss)
            norms.append(self.optimiser.step(rate))
            total += loss.detach() * (len(targets) / T)
        return torch.cat((total, torch.stack(norms).mean(dim=0)))

    def state(self) -> Mapping[str, Tensor]:
        """Lengths of the segments of all videos, one after another, and the numbers of states."""
        lengths = torch.from_numpy(np.concatenate(self.lengths))
        return {"lengths": lengths, "counts": self.network.output.counts.cpu()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned."""
        lengths, counts, own = self.by_video(state["lengths"]), state["counts"], self.network.output.counts
        if any(one.sum() != video.n_frames for one, video in zip(lengths, self.videos, strict=True)):
            raise ValueError("lengths of other videos")
        if counts.shape != own.shape or not bool(((counts >= 1) & (counts <= self.network.width)).all()):
            raise ValueError("numbers of states of other actions")
        self._divide(lengths, counts.numpy())

    def aligned(self, index: int) -> Ints:
        """Lengths `[M]` of a training video's segments, the best of its states' path."""
        features = self.videos[index].features(self.device)
        log_probs = self.network.state_log_probs(features).cpu().numpy()
        return self.network.states.align(log_probs, self.transcripts[index])

    def _n_states(self, mean_length: Floats | float) -> Floats:
        limit = self.config.network.max_states
        return np.clip(mean_length / self.config.training.frames_per_state, 1, limit)

    def _divide(self, lengths: Sequence[Ints], counts: ArrayLike) -> None:
        """Divides aligned segments linearly into states, which become the targets."""
        own, width = np.asarray(counts, dtype=np.int64), self.network.width
        self.lengths = lengths
        self.network.states = States.estimated(self.transcripts, lengths, own, width)
        pairs = zip(self.transcripts, lengths, strict=True)
        self.targets = [torch.from_numpy(labels(*pair, own, width)).to(self.device) for pair in pairs]

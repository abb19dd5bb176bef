"""The learner of ISBA: loops of epochs, between which the tokens of every video are refined."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mucon.arrays import Ints
from mucon.checkpoint_files import Progress, Saved
from mucon.methods.isba.config import IsbaConfig
from mucon.methods.isba.stop_rule import best_loop, has_stopped, set_loss
from mucon.methods.isba.tokens import class_weights, refined, soft_loss
from mucon.methods.weak import WeakLearner
from mucon.training.progress import evaluating

BEST, CURRENT = "best.", "current."
"""Prefixes of weights in the state: of the best loop, and in the last checkpoint those that training ends with."""


class IsbaLearner(WeakLearner):
    """TCFPN on soft targets; see `WeakLearner`.

    `loss.trained` is 1 in an epoch that changes the network. After the stop rule it is 0, the network is that of the
    best loop, and `loss.total` repeats its last value.

    Attributes:
        counts: tokens of each segment of each video.
        tokens: actions `[K]` of each video's tokens, on the device.
        last_losses: `[n_videos]` last loss of each video, on the device.
        loops: loss of each loop that has ended, for the stop rule.
        best: weights of the best one by name; none before there is a candidate.
    """

    TERMS = ("total", "trained")
    config: IsbaConfig

    def prepare(self) -> None:
        """One token per segment, and no best loop."""
        self.loops: list[float] = []
        self.best: dict[str, Tensor] = {}
        self.last_losses = torch.zeros(len(self.videos), device=self.device)
        self.trained = torch.ones(1, device=self.device)
        self._spread([np.ones(len(transcript), dtype=np.int64) for transcript in self.transcripts])

    def state(self) -> Mapping[str, Tensor]:
        """Tokens, last losses, and the best loop with its weights."""
        return {
            "counts": torch.from_numpy(np.concatenate(self.counts)),
            "last_losses": self.last_losses,
            "loops": torch.tensor(self.loops, dtype=torch.float64),
            **{BEST + name: tensor for name, tensor in self.best.items()},
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned, and the weights that training ended with if it goes on."""
        self._spread(self.by_video(state["counts"]))
        if state["last_losses"].shape != self.last_losses.shape:
            raise ValueError("losses of other videos")
        self.last_losses.copy_(state["last_losses"])
        self.loops = state["loops"].tolist()
        self.best = _of(state, BEST)
        if current := _of(state, CURRENT):
            self.network.load_state_dict(current)

    def begin_epoch(self, epoch: int) -> None:
        """Ends the loop before, and begins one with refined tokens."""
        if self.stopped or not self.config.looks_again(epoch):
            return
        loss, counts = self._looked_at()
        self.loops.append(loss)
        if best_loop(self.loops) == len(self.loops) - 1:
            self.best = self._weights()
        if self.stopped:
            self.network.load_state_dict(self.best)
            return
        self._spread(counts)
        if not self.config.boundaries.warm_start:
            fresh = self.config.network.build(self.size["dim"], self.size["n_actions"])
            self.network.load_state_dict(fresh.state_dict())
            self.optimiser.restart()

    def step(self, index: int, features: Tensor, *, epoch: int, step: int, rate: float) -> Tensor:
        """A step on one video; see `Learner.step`."""
        if self.stopped:
            nothing = torch.zeros(1 + len(self.norms), device=self.device)
            return torch.cat((self.last_losses[index : index + 1], nothing))
        log_probs = self.network(features)[0]
        loss = soft_loss(log_probs, self.tokens[index], self.weights_of_classes)
        torch.autograd.backward(loss)
        norms = self.optimiser.step(rate)
        self.last_losses[index] = loss.detach()
        return torch.cat((loss.detach()[None], self.trained, norms))

    def saved(self, progress: Progress) -> Saved:
        """The content of the checkpoint; the last one has the weights and the facts of the best loop."""
        if not progress.finished:
            return super().saved(progress)
        current = self._weights()
        if self.best and not self.stopped and best_loop([*self.loops, self._looked_at()[0]]) != len(self.loops):
            self.network.load_state_dict(self.best)
        saved = super().saved(progress)
        saved = dataclasses.replace(saved, weights=self._weights())
        self.network.load_state_dict(current)
        more = {CURRENT + name: tensor for name, tensor in current.items()}
        return dataclasses.replace(saved, learner={**saved.learner, **more})

    @property
    def stopped(self) -> bool:
        """Whether the rule has ended the training."""
        return has_stopped(self.loops, self.config.boundaries.patience)

    def _looked_at(self) -> tuple[float, list[Ints]]:
        """The loss of the current loop for the stop rule, and the refined tokens.

        Reads the probabilities of each video back from the device once.
        """
        losses, counts = [], []
        choices = self.config.boundaries
        with evaluating(self.network):
            for index, (transcript, own) in enumerate(zip(self.transcripts, self.counts, strict=True)):
                probs = np.exp(self.log_probs(index))
                random = np.random.default_rng([self.seed, len(self.loops), index])
                losses.append(set_loss(probs, transcript))
                counts.append(refined(own, transcript, probs, random, margin=choices.margin, flip=choices.flip))
        return float(np.mean(losses)), counts

    def _spread(self, counts: list[Ints]) -> None:
        """Takes over tokens: those of the videos, and the weights of the classes, on the device."""
        self.counts = counts
        tokens = [np.repeat(transcript, own) for transcript, own in zip(self.transcripts, counts, strict=True)]
        self.tokens = [torch.from_numpy(one).to(self.device) for one in tokens]
        weights = torch.from_numpy(class_weights(tokens, self.vocabulary.n_actions))
        self.weights_of_classes = weights.to(self.device, self.dtype)

    def _weights(self) -> dict[str, Tensor]:
        """A copy of the weights."""
        return {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}


def _of(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}

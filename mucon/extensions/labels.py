"""Labels that a network gives to its own training videos: exact alignments of their transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Floats, Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.class_means import class_mean_lengths, frame_shares
from mucon.decoding.fusion import LEAST_SHARE
from mucon.decoding.length_priors import Flat, LengthPrior, PoissonPerClass
from mucon.decoding.spread_priors import NegativeBinomial
from mucon.extensions.config import LabelPrior

SPREAD = 1.0
"""Relative deviation of the negative binomial prior; with it, decoding is fast and the prior geometric."""


@dataclass(frozen=True, slots=True, eq=False)
class Labeller:
    """A rule for the lengths of the segments of a video.

    Attributes:
        prior: length prior.
        means: `[N]` mean frames of a segment of each action.
        log_shares: `[N]` subtracted from the log probabilities of each frame.
    """

    prior: LabelPrior
    means: Floats
    log_shares: Floats

    @classmethod
    def of(cls, segments: Sequence[tuple[Ints, Ints]], n_actions: int, prior: LabelPrior, *, divided: bool) -> Self:
        """The rule after earlier labels.

        Args:
            segments: for each video the transcript `[M]` and the lengths `[M]` in frames.
            n_actions: N; an action that no video has gets the mean of all segments, and the share `LEAST_SHARE`.
            prior: length prior.
            divided: whether the log probabilities are divided by the shares of the actions in the frames.
        """
        shares = np.maximum(frame_shares(segments, n_actions), LEAST_SHARE) if divided else np.ones(n_actions)
        return cls(prior, class_mean_lengths(segments, n_actions), np.log(shares))

    def lengths(self, log_probs: NDArray[np.floating], transcript: Ints) -> Ints:
        """The best lengths `[M]` of a transcript `[M]`, 1 <= M <= T, for log probabilities `[T, N]`.

        Raises:
            InputError: a log probability that is NaN or infinite.
        """
        prior: LengthPrior = Flat()
        if self.prior == "poisson":
            prior = PoissonPerClass(self.means)
        elif self.prior == "negative_binomial":
            prior = NegativeBinomial(self.means[transcript], SPREAD)
        return best_lengths(log_probs - self.log_shares, transcript, prior)[0]


def first_labeller(n_actions: int) -> Labeller:
    """The rule without earlier labels: the lengths that fit the frames best."""
    return Labeller("none", np.ones(n_actions), np.zeros(n_actions))

"""A length prior that is fitted on alignments of the training recordings: the family, its spread and its centre."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Floats, Ints
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.spread_priors import LEAST_SPREAD, NegativeBinomial

PSEUDO_SEGMENTS = 5
"""Segments of the pooled spread that are added to those of each action."""
MOST_SPREAD = 1.0
"""Largest spread, that of the geometric distribution; wider distributions are not log-concave."""
LEAST_CENTRE = 1.0
"""Frames; smaller predicted lengths are raised to it, so that one of them does not decide the spread."""

Centre = Literal["segment", "class"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLengths:
    """A negative binomial prior; with the least spread it is the Poisson prior.

    Attributes:
        centre: mean of a segment's length: predicted by the segment branch, or that of its action.
        means: `[N]` mean frames of a segment of each action in the alignments.
        spreads: `[N]` relative deviation of each action beyond that of a Poisson distribution, see `NegativeBinomial`.
    """

    centre: Centre
    means: tuple[float, ...]
    spreads: tuple[float, ...]

    @classmethod
    def of(cls, segments: Sequence[tuple[Ints, Ints, NDArray[np.float64]]], n_actions: int) -> Self:
        """Fits spreads by moments about either centre, and takes the centre with the higher likelihood.

        Args:
            segments: of each recording its transcript, aligned and predicted lengths, each `[M]`. The alignments should
                not know the predicted lengths, or those explain them too well.
            n_actions: N.
        """
        means = class_mean_lengths(((transcript, lengths) for transcript, lengths, _ in segments), n_actions)
        actions, frames, predicted = (np.concatenate(column) for column in zip(*segments, strict=True))
        centres: Mapping[Centre, Floats] = {"segment": np.maximum(predicted, LEAST_CENTRE), "class": means[actions]}
        spreads = {name: fitted_spreads(actions, frames, centre, n_actions) for name, centre in centres.items()}

        def likelihood(name: Centre) -> float:
            prior = NegativeBinomial(centres[name], spreads[name][actions])
            return float(prior.terms(actions, int(frames.max())).log_probs(frames).sum())

        best = max(get_args(Centre), key=likelihood)
        return cls(centre=best, means=tuple(means.tolist()), spreads=tuple(spreads[best].tolist()))

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        return cls(centre=value["centre"], means=tuple(value["means"]), spreads=tuple(value["spreads"]))

    @classmethod
    def averaged(cls, members: Iterable[Self]) -> Self:
        """The means of several priors, about the centre of most of them."""
        every = list(members)
        n_segment = sum(one.centre == "segment" for one in every)
        means, spreads = (np.mean([getattr(one, name) for one in every], axis=0) for name in ("means", "spreads"))
        centre: Centre = "segment" if 2 * n_segment >= len(every) else "class"
        return cls(centre=centre, means=tuple(means.tolist()), spreads=tuple(spreads.tolist()))

    def per_action(self) -> NegativeBinomial:
        """The prior of a transcript 0, 1, ..., N-1 about the mean length of each action.

        The spreads are those about `centre`, so they are a little too small where that is the segment branch.
        """
        return NegativeBinomial(self.means, self.spreads)

    def prior(self, transcript: Ints, lengths: NDArray[np.float64]) -> NegativeBinomial:
        """The prior of a transcript `[M]` with predicted lengths `[M]`."""
        centres = np.maximum(lengths, LEAST_CENTRE) if self.centre == "segment" else np.asarray(self.means)[transcript]
        return NegativeBinomial(centres, np.asarray(self.spreads)[transcript])


def fitted_spreads(actions: Ints, frames: Ints, centres: Floats, n_actions: int) -> Floats:
    """Spreads `[N]` with which the variance of the lengths is that of `NegativeBinomial`.

    A segment of l frames about the mean c has the squared spread ((l - c)² - c) / c²; it is averaged over the segments
    of an action and over `PSEUDO_SEGMENTS` more that have the average of all segments. Where the variance is at most
    the mean, the spread is `LEAST_SPREAD`, so that the prior is Poisson.

    Args:
        actions: `[S]` action of each segment.
        frames: `[S]` its length.
        centres: `[S]` mean of its length, at least `LEAST_CENTRE`.
        n_actions: N.
    """
    squares = ((frames - centres) ** 2 - centres) / centres**2
    sums = np.bincount(actions, weights=squares, minlength=n_actions)
    counts = np.bincount(actions, minlength=n_actions)
    shrunk = (sums + PSEUDO_SEGMENTS * squares.mean()) / (counts + PSEUDO_SEGMENTS)
    spreads: Floats = np.clip(np.sqrt(np.maximum(shrunk, 0.0)), LEAST_SPREAD, MOST_SPREAD)
    return spreads

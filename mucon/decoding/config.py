"""The choices of inference that training does not see."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mucon.checks import check_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingConfig:
    """How the `full` prediction finds the lengths of the segments.

    Attributes:
        method: `exact`, or `published`: the published program's decoder with its faults, to check its numbers. That
            one has Poisson priors about the mean predicted length of each action, whatever `length_prior` says.
        step: frames that `published` decides together; `exact` decides every frame.
        length_prior: Poisson about each segment's predicted length (`segment`, paper), about the mean of the
            predicted lengths of its action in that video (`class`, published program), or `none`; or another
            distribution about each segment's predicted length: `gaussian`, `log_normal`, `negative_binomial`.
        length_spread: standard deviation / mean of those three; see `mucon.decoding.spread_priors`.
        transcripts: which ones `full` chooses among: those of the segment branch (paper), or all distinct ones of the
            training videos, each as likely as another, with Poisson priors about the mean length of each action
            in the training videos (what NNV and CDFL do).
        class_prior: `training` divides the frame branch's probabilities by each action's share of the training frames
            as the network sees them; `none` (paper) does not.
        max_length: longest segment in frames, or None. Deviation: the published program stops at 2,000 frames, and
            so does `published` where this is None.
        beam: how many transcripts of the segment branch are aligned; the highest joint score wins. 1 is the greedy
            one (paper).
        prefix_beam: how many prefixes of each length are followed in alignment against all training transcripts,
            which is exact with None.

    Raises:
        InputError: a value outside its range.
    """

    method: Literal["exact", "published"] = "exact"
    step: int = 30
    length_prior: Literal["segment", "class", "none", "gaussian", "log_normal", "negative_binomial"] = "segment"
    length_spread: float = 0.5
    transcripts: Literal["segment_branch", "training"] = "segment_branch"
    class_prior: Literal["none", "training"] = "none"
    max_length: int | None = None
    beam: int = 1
    prefix_beam: int | None = None

    @property
    def needs_training_facts(self) -> bool:
        """The choices use what is known of the training videos."""
        return self.transcripts == "training" or self.class_prior == "training"

    def __post_init__(self) -> None:
        longest, prefixes = self.max_length, self.prefix_beam
        check_ranges(
            "decoding.",
            [
                ("step", self.step, "at least 1 frame", self.step >= 1),
                ("length_spread", self.length_spread, "above 0 and finite", 0 < self.length_spread < math.inf),
                ("max_length", longest, "at least 1 frame, or none", longest is None or longest >= 1),
                ("beam", self.beam, "at least 1", self.beam >= 1),
                ("prefix_beam", prefixes, "at least 1, or none", prefixes is None or prefixes >= 1),
            ],
        )

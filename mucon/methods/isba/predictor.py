"""The predictor of ISBA: its own alignment, and the predictions that all weak methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mucon.methods.isba.config import IsbaConfig
from mucon.methods.isba.tokens import lengths_of, refined
from mucon.methods.weak import EvidencePredictor
from mucon.segments import Segmentation

ROUNDS = 10
"""Rounds in which the tokens of a given transcript are refined, as in the released program."""
ALIGNING = 0xA119
"""Word of the seed that belongs to alignments alone."""


@dataclass(frozen=True, slots=True)
class IsbaPredictor(EvidencePredictor):
    """An `EvidencePredictor` whose alignment `frames` refines one token per segment ten times.

    `full` aligns exactly. Deviation: both use the model of the best loop, the released program that of the last one.
    """

    config: IsbaConfig

    def aligned(self, name: str, log_probs: NDArray[np.floating], transcript: Sequence[int]) -> Segmentation:
        """A prediction with a given transcript `[M]`, M <= T, for log posteriors `[T, N]`.

        Raises:
            InputError: the recording has no such prediction.
        """
        if name != "frames":
            return super(IsbaPredictor, self).aligned(name, log_probs, transcript)
        choices, probs = self.config.boundaries, np.exp(log_probs)
        counts = np.ones(len(transcript), dtype=np.int64)
        for n in range(ROUNDS):
            random = np.random.default_rng([self.config.seed, n, ALIGNING])
            counts = refined(counts, transcript, probs, random, margin=choices.margin, flip=choices.flip)
        return Segmentation.of(transcript, lengths_of(counts, len(probs)))

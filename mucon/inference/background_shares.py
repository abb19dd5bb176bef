"""Shares of the background by a trained network, from its checkpoint; imports no torch."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mucon.checkpoint_files import of_run, read
from mucon.decoding.fusion import TrainingFacts
from mucon.errors import Problem

GAP = 0.1
"""Difference of the two shares of the background from which on training warns."""


@dataclasses.dataclass(frozen=True, slots=True)
class BackgroundShares:
    """Shares of the background in the training frames, by the trained network; no label is needed to compare them.

    Attributes:
        aligned: in the network's own alignments.
        posterior: mean probability.
    """

    aligned: float
    posterior: float

    def __str__(self) -> str:
        own, mean = f"{100 * self.aligned:.0f}", f"{100 * self.posterior:.0f}"
        return f"background: {own} % of the frames by its own alignment, {mean} % by its mean posterior"

    def problem(self) -> Problem | None:
        """A gap between the two, which is a sign that the network gives the background too many or too few frames."""
        if abs(self.aligned - self.posterior) <= GAP:
            return None
        value = (round(self.aligned, 3), round(self.posterior, 3))
        message = f"{self.aligned:.2f} of the frames are aligned to it, but its mean posterior is {self.posterior:.2f}"
        hint = "compare decoding.background_offset=1, or state its share with decoding.background_rule=share"
        return Problem(rule="mismatch", place="background", value=value, message=message, hint=hint)


def background_shares(folder: Path) -> BackgroundShares | None:
    """The shares by the checkpoint of a run; None without a background, or if the checkpoint does not know them.

    Raises:
        InputError: no checkpoint, or damaged files.
    """
    saved = read(of_run(folder))
    facts = None if saved.facts is None else TrainingFacts.from_dict(saved.facts)
    background = saved.vocabulary.background_ids
    if facts is None or not facts.mean_posteriors or not background:
        return None
    return BackgroundShares(*(sum(one[n] for n in background) for one in (facts.frame_shares, facts.mean_posteriors)))

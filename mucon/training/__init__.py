"""From videos to weights: the loop of every method, the optimiser, supervision, progress, and MuCon's learner."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucon.training.loop import EpochReport, Learner, Loop
    from mucon.training.mucon_learner import train

__all__ = ["EpochReport", "Learner", "Loop", "train"]


def __getattr__(name: str) -> object:
    """Imports what computes when it is used: `mucon.training.supervision` needs no torch."""
    if name in __all__:
        from mucon.training import loop, mucon_learner

        return getattr(mucon_learner if name == "train" else loop, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""ATBA as a method."""

from __future__ import annotations

from mucon.methods.atba.config import AtbaConfig, demo, published_program
from mucon.methods.atba.learner import AtbaLearner
from mucon.methods.weak import WeakMethod


class AtbaMethod(WeakMethod[AtbaConfig]):
    """A `mucon.method.Method`; see there."""

    def quick(self, config: AtbaConfig, *, labelled: bool) -> AtbaConfig:
        """One epoch of the second stage without scores, one video per step of the optimiser."""
        first = {"training.epochs": 1, "training.stage1_epochs": None, "training.stop_after": None}
        return config.with_values({**first, "training.accumulate": 1, "training.progress_videos": 0})


RECIPES = {"weak": AtbaConfig, "demo": demo, "published_program": published_program, "breakfast": AtbaConfig}
ATBA = AtbaMethod("atba", AtbaConfig, RECIPES, AtbaLearner, main="frames")

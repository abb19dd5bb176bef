"""From videos to weights: the loop of every method, the optimiser, supervision, progress, and MuCon's learner."""

from mucon.training.loop import EpochReport, Learner, Loop
from mucon.training.mucon_learner import train

__all__ = ["EpochReport", "Learner", "Loop", "train"]

"""From videos to weights: the loop, its step, the optimiser, supervision, progress and warm start."""

from mucon.training.loop import EpochReport, train

__all__ = ["EpochReport", "train"]

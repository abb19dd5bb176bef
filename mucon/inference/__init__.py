"""From weights to segmentations: the predictions, their fusion, and facts of the training videos."""

from mucon.inference.predictions import PREDICTIONS, TASKS, Prediction, align_transcript, predict

__all__ = ["PREDICTIONS", "TASKS", "Prediction", "align_transcript", "predict"]

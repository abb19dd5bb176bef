"""From weights to segmentations: values and checks of all methods; MuCon's predictions, their fusion and predictor."""

from mucon.inference.predictions import PREDICTIONS, align_transcript, predict
from mucon.inference.predictor import MuConPredictor
from mucon.inference.requests import TASKS, Prediction

__all__ = ["PREDICTIONS", "TASKS", "MuConPredictor", "Prediction", "align_transcript", "predict"]

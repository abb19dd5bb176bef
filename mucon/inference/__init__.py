"""From weights to segmentations: values and checks of all methods; MuCon's predictions, their fusion and predictor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucon.inference.names import PREDICTIONS
from mucon.inference.requests import TASKS, Prediction

if TYPE_CHECKING:
    from mucon.inference.predictions import align_transcript, predict
    from mucon.inference.predictor import MuConPredictor

__all__ = ["PREDICTIONS", "TASKS", "MuConPredictor", "Prediction", "align_transcript", "predict"]


def __getattr__(name: str) -> object:
    """Imports what computes when it is used: names of tasks and predictions need no torch."""
    if name in __all__:
        from mucon.inference import predictions, predictor

        return getattr(predictor if name == "MuConPredictor" else predictions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

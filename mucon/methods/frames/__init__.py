"""Methods that classify frames from frame labels: predictor, learner, settings and method that they share.

A method adds a network (`FrameNetworkConfig.build`) and a configuration (`FrameConfig`).
"""

from mucon.methods.frames.config import FrameConfig, FrameLossConfig, FrameNetworkConfig, FrameTrainingConfig
from mucon.methods.frames.method import FrameMethod
from mucon.methods.frames.predictor import FrameClassifier

__all__ = [
    "FrameClassifier",
    "FrameConfig",
    "FrameLossConfig",
    "FrameMethod",
    "FrameNetworkConfig",
    "FrameTrainingConfig",
]

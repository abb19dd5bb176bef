"""Methods with one network that classifies frames: networks, learner, settings, predictor and method that they share.

A method that learns from frame labels adds a network (`FrameNetworkConfig.build`) and a configuration (`FrameConfig`).
Methods that learn from transcripts build on `NetworkConfig`, `NetworkLearner` and `NetworkMethod`, see
`mucon.methods.weak`.
"""

from mucon.methods.frames.config import FrameConfig, FrameLossConfig, FrameTrainingConfig
from mucon.methods.frames.method import FrameMethod
from mucon.methods.frames.networks import FrameClassifier, FrameNetworkConfig

__all__ = [
    "FrameClassifier",
    "FrameConfig",
    "FrameLossConfig",
    "FrameMethod",
    "FrameNetworkConfig",
    "FrameTrainingConfig",
]

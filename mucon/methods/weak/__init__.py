"""Methods with one network that learn from transcripts: settings, learner, predictor and method that they share.

A method adds a network (`FrameNetworkConfig.build`), a configuration (`WeakConfig`) and a learner (`WeakLearner.step`).
"""

from mucon.methods.frames.networks import FrameClassifier, FrameNetworkConfig
from mucon.methods.weak.config import WeakConfig, WeakTrainingConfig
from mucon.methods.weak.learner import WeakLearner
from mucon.methods.weak.method import WeakMethod
from mucon.methods.weak.predictor import EvidencePredictor

__all__ = [
    "EvidencePredictor",
    "FrameClassifier",
    "FrameNetworkConfig",
    "WeakConfig",
    "WeakLearner",
    "WeakMethod",
    "WeakTrainingConfig",
]

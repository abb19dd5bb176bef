"""ISBA: TCFPN trained from transcripts with soft boundaries that are refined between loops of epochs.

From the paper and the released program: soft targets from tokens, weights of the classes, one more token per boundary
and loop, the stop rule on the set of actions, the argmax of the frames, and alignment by refinement.
Deviations: a loop is one epoch and continues with the weights of the one before, because a network that is trained for
long on the same targets fits their borders in short recordings, and the borders move no more; Adam.
`training.schedule=published` has up to twenty loops of 100 epochs, each with a new network. The deviations of the
network are in `mucon.methods.encoder_decoder`.

Source: Ding and Xu, "Weakly-supervised action segmentation with iterative soft boundary assignment", CVPR 2018.
"""

from mucon.method import Method
from mucon.methods.isba.config import RECIPES, IsbaConfig
from mucon.methods.isba.learner import IsbaLearner
from mucon.methods.isba.predictor import IsbaPredictor
from mucon.methods.weak import WeakMethod

ISBA: Method[IsbaConfig] = WeakMethod("isba", IsbaConfig, RECIPES, IsbaLearner, main="frames", predictor=IsbaPredictor)

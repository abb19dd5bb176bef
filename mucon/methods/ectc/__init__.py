"""ECTC: the likelihood of a transcript over all its alignments, weighted by the similarity of neighbouring frames.

The network is MuCon's backbone with its frame branch, so that only the loss differs.
"""

from mucon.method import Method
from mucon.methods.ectc.config import EctcConfig, demo, small
from mucon.methods.ectc.learner import EctcLearner
from mucon.methods.weak import WeakMethod

ECTC: Method[EctcConfig] = WeakMethod(
    "ectc",
    EctcConfig,
    {"weak": EctcConfig, "small": small, "demo": demo, "breakfast": EctcConfig},
    EctcLearner,
    main="frames",
)

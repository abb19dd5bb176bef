"""CDFL: the constrained discriminative forward loss over alignments near the best one, with NNV's network and decoder.

Source: Li, Lei and Todorovic, "Weakly Supervised Energy-Based Learning for Action Segmentation", ICCV 2019, and their
released program.
"""

from mucon.method import Method
from mucon.methods.cdfl.learner import CdflConfig, CdflLearner, demo, published_program
from mucon.methods.weak import WeakMethod

RECIPES = {"weak": CdflConfig, "demo": demo, "published_program": published_program}
CDFL: Method[CdflConfig] = WeakMethod("cdfl", CdflConfig, RECIPES, CdflLearner, main="full")

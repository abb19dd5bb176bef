"""MuCon: action segmentation learnt from transcripts with a differentiable mutual consistency loss.

Souri, Fayyaz, Minciullo, Francesca, Gall: "Fast Weakly Supervised Action Segmentation Using Mutual Consistency",
IEEE TPAMI 2021. Equation and section numbers in the docstrings are that paper's.
"""

NUMERICS = 1
"""Version of the arithmetic of training: raised whenever the same configuration trains to other weights."""

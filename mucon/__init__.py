"""MuCon: weakly supervised action segmentation with a differentiable mutual consistency loss.

Souri, Fayyaz, Minciullo, Francesca, Gall: "Fast Weakly Supervised Action Segmentation Using Mutual Consistency",
IEEE TPAMI 2021. Equation and section numbers in the docstrings refer to that paper.

`mucon.load(RUN).predict(features)` uses a trained model; `mucon.library` documents both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucon.library import Alternative, Model, Outcome, Segment, Segments, load

__all__ = ["EVALUATION", "NUMERICS", "Alternative", "Model", "Outcome", "Segment", "Segments", "load"]

NUMERICS = 1
"""Version of the arithmetic of training: raised whenever the same configuration trains to other weights."""
EVALUATION = 1
"""Version of decoding and metrics: raised whenever the same weights and choices give other predictions or scores."""


def __getattr__(name: str) -> object:
    """Imports the library when it is used: `import mucon` alone loads neither torch nor numpy."""
    if name in __all__:
        from mucon import library

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

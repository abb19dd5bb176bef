"""Model of the features of simulated recordings, which have real transcripts and lengths."""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass
from typing import Any, Self

from mucon.configuration import convert, field_types
from mucon.errors import InputError, Problem, check_ranges, nearest

DTYPES = ("float16", "float32", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureModel:
    """Variances and correlations of the features; the defaults are the preset `breakfast_fv`.

    The shares `between`, `variation`, `offset` and `grain` are parts of a feature's variance; the rest is slow noise. A
    share does not depend on D. `latent` limits how well a classifier that sums over features can perform, equally for
    every larger D.

    Attributes:
        dim: D.
        dtype: dtype of the store.
        latent: maximum number of independent features; with a larger D, features are mixtures of them.
        between: share of the variance between the actions' means, which have random directions from the centre.
        variation: share between the recordings' variations of one action.
        offset: share between recordings.
        grain: share of noise that is independent in every frame.
        window: frames over which slow noise is averaged; it is uncorrelated after `window + ramp - 1` frames.
        ramp: frames over which the window rises and falls; larger values are smoother from frame to frame.
        blur: frames over which neighbouring actions are averaged; 1 for none.
        smallest_std: smallest standard deviation of a feature; half of the features are near it.
        largest_std: largest standard deviation of a feature.
        level: standard deviation of the features' means.

    Raises:
        InputError: one problem per value outside its range.
    """

    dim: int = 64
    dtype: str = "float32"
    latent: int = 64
    between: float = 0.09
    variation: float = 0.02
    offset: float = 0.03
    grain: float = 0.007
    window: int = 24
    ramp: int = 6
    blur: int = 15
    smallest_std: float = 2.6
    largest_std: float = 7.1
    level: float = 1.5

    def __post_init__(self) -> None:
        counts = [(name, getattr(self, name)) for name in ("dim", "latent", "window", "ramp", "blur")]
        shares = [(name, getattr(self, name)) for name in ("between", "variation", "offset", "grain")]
        total = sum(share for _, share in shares)
        text = "between + variation + offset + grain"
        smallest, largest = self.smallest_std, self.largest_std
        check_ranges(
            "feature model: ",
            [
                *((name, value, "at least 1", value >= 1) for name, value in counts),
                ("ramp", self.ramp, f"at most window ({self.window})", self.ramp <= self.window),
                *((name, value, "at least 0 and below 1", 0 <= value < 1) for name, value in shares),
                (text, round(total, 6), "below 1 (the rest is slow noise)", total < 1),
                ("smallest_std", smallest, "above 0", 0 < smallest < math.inf),
                ("largest_std", largest, f"at least smallest_std ({smallest})", smallest <= largest < math.inf),
                ("level", self.level, "at least 0", 0 <= self.level < math.inf),
                ("dtype", self.dtype, f"one of {', '.join(DTYPES)}", self.dtype in DTYPES),
            ],
        )

    @property
    def slow(self) -> float:
        """Share of the variance that is slow noise."""
        return 1 - self.between - self.variation - self.offset - self.grain

    def to_dict(self) -> dict[str, Any]:
        """A dictionary of numbers and strings, for JSON."""
        return dataclasses.asdict(self)

    def override(self, name: str, text: str) -> Self:
        """Returns a copy with one field replaced.

        Args:
            name: name of the field.
            text: the value as on a command line.

        Raises:
            InputError: an unknown field, or a value of a wrong type or out of range.

        >>> FeatureModel().override("blur", "5").blur
        5
        """
        kinds = field_types(type(self))
        place = f"feature model: {name}"
        if name not in kinds:
            message = f"unknown field{nearest(name, list(kinds))}; fields: {', '.join(kinds)}"
            raise InputError(Problem(rule="unknown", place=place, value=name, message=message))
        return dataclasses.replace(self, **{name: convert(place, text, kinds[name])})


PRESETS: types.MappingProxyType[str, FeatureModel] = types.MappingProxyType(
    {
        "breakfast_fv": FeatureModel(),
        "clear": FeatureModel(between=0.25),
    }
)
"""Feature models by name.

`breakfast_fv` is calibrated on reduced Fisher vectors (D = 64) of five recordings of Breakfast. Real values, and the
tolerance of those of simulated features (each feature within a recording; recordings of about 1,000 frames):

| | real | tolerance |
|---|---|---|
| autocorrelation at 1, 5, 15, 30 frames | .984 .851 .405 .021 | .004 .02 .03 .03 |
| share of the variance between classes | .099 | .02 |
| standard deviations of the features, smallest and largest | 2.6, 7.1 | 10 % |

The share includes what noise and offsets of few recordings add to the means of the classes, also in the real
recordings; `between` itself is therefore smaller. Parameters that calibration does not determine (`variation`,
`offset`, `blur`) are chosen so that a classifier of single frames is correct in about two of five. The real
autocorrelation at 60 frames, -.065, is not reproduced: centred recordings of a few hundred frames have such values,
longer ones do not.

`clear` has the same noise and actions that are easy to distinguish.
"""


def preset(name: str) -> FeatureModel:
    """The preset of a name.

    Raises:
        InputError: unknown name.
    """
    if name not in PRESETS:
        message = f"unknown preset {name!r}{nearest(name, list(PRESETS))}; presets: {', '.join(PRESETS)}"
        raise InputError(Problem(rule="unknown", place="preset", value=name, message=message))
    return PRESETS[name]

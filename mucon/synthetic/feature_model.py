"""What the features of simulated recordings are like: real transcripts and lengths, features from these numbers."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from mucon.errors import InputError, nearest

DTYPES = ("float16", "float32", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureModel:
    """How a frame's features come about; the defaults are the preset `breakfast_fv`.

    A feature's variance is the sum of the shares `between`, `variation`, `offset` and `grain`; what they leave is
    slow noise. A share does not change with D; how well a classifier that sums over features can do is set by
    `latent`, and the same for every D above it.

    Attributes:
        dim: D.
        dtype: of the store.
        latent: features are mixtures of at most so many independent ones; the features themselves up to this D.
        between: share of the variance between the actions' means, which lie in random directions from the centre.
        variation: share between the recordings' ways of doing one action.
        offset: share between the recordings as a whole.
        grain: share of noise that is new in every frame.
        window: frames over which slow noise is averaged; it is uncorrelated from `window + ramp - 1` frames on.
        ramp: frames over which that window rises and falls; the longer, the smoother from frame to frame.
        blur: frames over which two actions flow into each other; 1 for none.
        smallest_std: least standard deviation of a feature; half of the features are near it.
        largest_std: greatest standard deviation of a feature.
        level: standard deviation of the features' means.

    Raises:
        InputError: values outside their range, all told at once.
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
        _check(
            [
                *((name, value, "at least 1", value >= 1) for name, value in counts),
                ("ramp", self.ramp, f"at most window ({self.window})", self.ramp <= self.window),
                *((name, value, "a share from 0 to below 1", 0 <= value < 1) for name, value in shares),
                (text, round(total, 6), "below 1, the rest is slow noise", total < 1),
                ("smallest_std", smallest, "above 0", 0 < smallest < math.inf),
                ("largest_std", largest, f"at least smallest_std ({smallest})", smallest <= largest < math.inf),
                ("level", self.level, "at least 0", 0 <= self.level < math.inf),
                ("dtype", self.dtype, f"one of {', '.join(DTYPES)}", self.dtype in DTYPES),
            ]
        )

    @property
    def slow(self) -> float:
        """Share of the variance that is slow noise."""
        return 1 - self.between - self.variation - self.offset - self.grain

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)

    def override(self, name: str, text: str) -> Self:
        """The same with one field read from text, as the command line has it.

        Raises:
            InputError: no field of that name, or text that its type cannot be read from.

        >>> FeatureModel().override("blur", "5").blur
        5
        """
        kinds: dict[str, type] = {field.name: type(field.default) for field in dataclasses.fields(self)}
        if name not in kinds:
            raise InputError(
                f"a feature model has the fields {', '.join(kinds)}, not {name!r}{nearest(name, list(kinds))}: "
                "name one of them"
            )
        try:
            value = kinds[name](text)
        except ValueError as error:
            kind = "a whole number" if kinds[name] is int else "a number"
            raise InputError(f"feature model: {name} is {kind}, not {text!r}: give one") from error
        return dataclasses.replace(self, **{name: value})


def _check(rules: Iterable[tuple[str, int | float | str, str, bool]]) -> None:
    """Raises the rules, each of name, value, its text and whether it holds, that do not hold."""
    problems = [
        f"feature model: {name} is {rule}, not {value}: choose a value in that range"
        for name, value, rule, good in rules
        if not good
    ]
    if problems:
        raise InputError(problems)


PRESETS: types.MappingProxyType[str, FeatureModel] = types.MappingProxyType(
    {
        "breakfast_fv": FeatureModel(),
        "clear": FeatureModel(between=0.25),
    }
)
"""Feature models by name.

`breakfast_fv` is calibrated on reduced Fisher vectors (D = 64) of five recordings of Breakfast. Real values, and how
far those of its own output may be from them (each feature within a recording; recordings of about 1,000 frames):

| | real | tolerance |
|---|---|---|
| autocorrelation at 1, 5, 15, 30 frames | .984 .851 .405 .021 | .004 .02 .03 .03 |
| share of the variance between classes | .099 | .02 |
| standard deviations of the features, least and greatest | 2.6, 7.1 | 10 % |

The share counts what noise and offsets of few recordings add to the means of the classes, in the real recordings as
well: that is why `between` itself is smaller. What calibration leaves open (`variation`, `offset`, `blur`) is chosen so
that a classifier of single frames is right in about two of five. The real autocorrelation at 60 frames, -.065, is not
reproduced: recordings of a few hundred frames, centred, have such values, longer ones do not.

`clear` has the same noise and actions that are easy to tell apart.
"""


def preset(name: str) -> FeatureModel:
    """A preset by its name.

    Raises:
        InputError: there is none of that name.
    """
    if name not in PRESETS:
        raise InputError(
            f"the presets are {', '.join(PRESETS)}, not {name!r}{nearest(name, list(PRESETS))}: choose one of them"
        )
    return PRESETS[name]

"""What a set of made-up recordings is like: grammar, lengths, features, size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mucon.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarConfig:
    """What happens in a recording.

    Attributes:
        n_actions: N, the background (id 0) among them.
        n_recipes: orders of steps, equally common.
        fewest_steps: of a recipe, all distinct, without the background.
        most_steps: of a recipe.
        drop: probability with which each step is left out; two always stay.
        swap: probability with which two neighbouring steps change places, once a recording.
        repeat: probability with which a step is done again after the one that follows it, once a recording and only
            where nothing changed places.

    Raises:
        InputError: values outside their range, all told at once.
    """

    n_actions: int = 8
    n_recipes: int = 5
    fewest_steps: int = 3
    most_steps: int = 5
    drop: float = 0.1
    swap: float = 0.05
    repeat: float = 0.05

    def __post_init__(self) -> None:
        most = self.n_actions - 1
        _check(
            "grammar",
            [
                ("n_actions", self.n_actions, "at least 3 (background and two steps)", self.n_actions >= 3),
                ("n_recipes", self.n_recipes, "at least 1", self.n_recipes >= 1),
                ("fewest_steps", self.fewest_steps, "at least 2", self.fewest_steps >= 2),
                (
                    "most_steps",
                    self.most_steps,
                    f"from fewest_steps ({self.fewest_steps}) to n_actions - 1 ({most})",
                    self.fewest_steps <= self.most_steps <= most,
                ),
                *(
                    (name, value, "a probability from 0 to 1", 0 <= value <= 1)
                    for name, value in (("drop", self.drop), ("swap", self.swap), ("repeat", self.repeat))
                ),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthConfig:
    """How long things take.

    Attributes:
        background_mean: frames of a segment of background on average.
        shortest_mean: frames of the shortest action on average; the actions' means are spaced evenly in the logarithm.
        longest_mean: frames of the longest action on average.
        spread: standard deviation of a segment's log length about its action's.
        pace_spread: standard deviation of a recording's log pace.
        shortest: frames that every segment has.

    Raises:
        InputError: values outside their range, all told at once.
    """

    background_mean: float = 16.0
    shortest_mean: float = 12.0
    longest_mean: float = 60.0
    spread: float = 0.3
    pace_spread: float = 0.15
    shortest: int = 4

    def __post_init__(self) -> None:
        _check(
            "lengths",
            [
                ("background_mean", self.background_mean, "above 0", self.background_mean > 0),
                ("shortest_mean", self.shortest_mean, "above 0", self.shortest_mean > 0),
                (
                    "longest_mean",
                    self.longest_mean,
                    f"at least shortest_mean ({self.shortest_mean})",
                    self.longest_mean >= self.shortest_mean,
                ),
                ("spread", self.spread, "at least 0", self.spread >= 0),
                ("pace_spread", self.pace_spread, "at least 0", self.pace_spread >= 0),
                ("shortest", self.shortest, "at least 1", self.shortest >= 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureConfig:
    """What a recording looks like.

    Attributes:
        dim: D.
        separation: length of an action's mean; the noise of each feature has standard deviation 1.
        offset: standard deviation of a recording's offset in each feature.
        memory: correlation of the noise of neighbouring frames; k frames apart it is memory**k.
        blur: frames over which the means of two actions flow into each other; 1 for none.

    Raises:
        InputError: values outside their range, all told at once.
    """

    dim: int = 32
    separation: float = 2.9
    offset: float = 0.4
    memory: float = 0.5
    blur: int = 7

    def __post_init__(self) -> None:
        _check(
            "features",
            [
                ("dim", self.dim, "at least 1", self.dim >= 1),
                ("separation", self.separation, "at least 0", self.separation >= 0),
                ("offset", self.offset, "at least 0", self.offset >= 0),
                ("memory", self.memory, "from 0 to below 1", 0 <= self.memory < 1),
                ("blur", self.blur, "at least 1", self.blur >= 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticConfig:
    """A set of made-up recordings.

    Attributes:
        n_videos: recordings, training and test together.
        test_every: of so many recordings the last is for testing.
        seed: of everything.

    Raises:
        InputError: values outside their range, all told at once.
    """

    grammar: GrammarConfig = field(default_factory=GrammarConfig)
    lengths: LengthConfig = field(default_factory=LengthConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    n_videos: int = 90
    test_every: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        _check(
            "",
            [
                ("test_every", self.test_every, "at least 2", self.test_every >= 2),
                (
                    "n_videos",
                    self.n_videos,
                    f"at least test_every ({self.test_every}), so that both parts have one",
                    self.n_videos >= self.test_every,
                ),
                ("seed", self.seed, "at least 0", self.seed >= 0),
            ],
        )


def _check(room: str, rules: Iterable[tuple[str, int | float, str, bool]]) -> None:
    """Raises the rules, each of name, value, its text and whether it holds, that do not hold."""
    prefix = f"{room}." if room else ""
    problems = [
        f"made-up recordings: {prefix}{name} is {rule}, not {value}: choose a value in that range"
        for name, value, rule, good in rules
        if not good
    ]
    if problems:
        raise InputError(problems)

"""Configuration of made-up recordings: grammar, lengths, features, size."""

from __future__ import annotations

from dataclasses import dataclass, field

from mucon.errors import check_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarConfig:
    """Actions and their order.

    Attributes:
        n_actions: N, including the background (id 0).
        n_recipes: number of orders of steps, which are equally frequent.
        fewest_steps: minimum number of steps of a recipe; steps are distinct, without background.
        most_steps: maximum number of steps of a recipe.
        drop: probability that a step is omitted; two steps always remain.
        swap: probability that two neighbouring steps of a recording are exchanged.
        repeat: probability that a step of a recording is repeated after the following one; only without an exchange.

    Raises:
        InputError: one problem per value outside its range.
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
        check_ranges(
            "synthetic.grammar.",
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
                    (name, value, "from 0 to 1", 0 <= value <= 1)
                    for name, value in (("drop", self.drop), ("swap", self.swap), ("repeat", self.repeat))
                ),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthConfig:
    """Lengths of the segments.

    Attributes:
        background_mean: mean frames of a background segment.
        shortest_mean: mean frames of the shortest action; the means of the actions are evenly spaced in the logarithm.
        longest_mean: mean frames of the longest action.
        spread: standard deviation of a segment's log length around that of its action.
        pace_spread: standard deviation of a recording's log pace.
        shortest: minimum frames of a segment.

    Raises:
        InputError: one problem per value outside its range.
    """

    background_mean: float = 16.0
    shortest_mean: float = 12.0
    longest_mean: float = 60.0
    spread: float = 0.3
    pace_spread: float = 0.15
    shortest: int = 4

    def __post_init__(self) -> None:
        check_ranges(
            "synthetic.lengths.",
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
    """Features of the frames.

    Attributes:
        dim: D.
        separation: norm of an action's mean; the noise of each feature has standard deviation 1.
        offset: standard deviation of a recording's offset in each feature.
        memory: correlation of the noise of neighbouring frames; k frames apart it is memory**k.
        blur: frames over which the means of neighbouring actions are averaged; 1 for none.

    Raises:
        InputError: one problem per value outside its range.
    """

    dim: int = 32
    separation: float = 2.9
    offset: float = 0.4
    memory: float = 0.5
    blur: int = 7

    def __post_init__(self) -> None:
        check_ranges(
            "synthetic.features.",
            [
                ("dim", self.dim, "at least 1", self.dim >= 1),
                ("separation", self.separation, "at least 0", self.separation >= 0),
                ("offset", self.offset, "at least 0", self.offset >= 0),
                ("memory", self.memory, "at least 0 and below 1", 0 <= self.memory < 1),
                ("blur", self.blur, "at least 1", self.blur >= 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticConfig:
    """A set of made-up recordings.

    Attributes:
        n_videos: number of training and test recordings.
        test_every: the last of this many consecutive recordings is a test recording.
        seed: at least 0.

    Raises:
        InputError: one problem per value outside its range.
    """

    grammar: GrammarConfig = field(default_factory=GrammarConfig)
    lengths: LengthConfig = field(default_factory=LengthConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    n_videos: int = 90
    test_every: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(
            "synthetic.",
            [
                ("test_every", self.test_every, "at least 2", self.test_every >= 2),
                (
                    "n_videos",
                    self.n_videos,
                    f"at least test_every ({self.test_every})",
                    self.n_videos >= self.test_every,
                ),
                ("seed", self.seed, "at least 0", self.seed >= 0),
            ],
        )

"""Made-up recordings with known answers: a grammar says what happens, statistics say how long, noise hides it.

A recipe is an order of steps. A recording follows one of them with steps left out, exchanged or done again, begins
and ends with background, and has its own pace. Its features are the mean of the action of each frame, blurred where
actions meet, plus an offset of the recording and noise that changes slowly. Every recording depends on the seed and
its own number alone: a longer set begins with the recordings of a shorter one, and features are made when they are
read.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mucon.errors import InputError
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

BACKGROUND = "background"
NAMES = ("take", "open", "pour", "cut", "stir", "fry", "serve", "wash", "peel", "fold", "weigh", "store")
"""Actions of small sets; further ones are numbered."""
SPLIT = "1"
_GRAMMAR, _LENGTHS, _MEANS, _ANNOTATION, _FEATURES = range(5)


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
        repeat: probability with which a step is done again after the one that follows it, once a recording.
    """

    n_actions: int = 8
    n_recipes: int = 5
    fewest_steps: int = 3
    most_steps: int = 5
    drop: float = 0.1
    swap: float = 0.1
    repeat: float = 0.1


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
    """

    background_mean: float = 16.0
    shortest_mean: float = 12.0
    longest_mean: float = 60.0
    spread: float = 0.3
    pace_spread: float = 0.15
    shortest: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureConfig:
    """What a recording looks like.

    Attributes:
        dim: D.
        separation: length of an action's mean; the noise of each feature has standard deviation 1.
        offset: standard deviation of a recording's offset in each feature.
        memory: correlation of the noise of neighbouring frames; k frames apart it is memory**k.
        blur: frames over which the means of two actions flow into each other; 1 for none.
    """

    dim: int = 32
    separation: float = 3.0
    offset: float = 0.4
    memory: float = 0.8
    blur: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticConfig:
    """A set of made-up recordings.

    Attributes:
        n_videos: recordings, training and test together.
        test_every: of so many recordings the last is for testing.
        seed: of everything.

    Raises:
        InputError: values outside their range, or that contradict each other; all told at once.
    """

    grammar: GrammarConfig = field(default_factory=GrammarConfig)
    lengths: LengthConfig = field(default_factory=LengthConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    n_videos: int = 75
    test_every: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        g, n, f = self.grammar, self.lengths, self.features
        rules = [
            ("grammar.n_actions", g.n_actions, "at least 3 (background and two steps)", g.n_actions >= 3),
            ("grammar.n_recipes", g.n_recipes, "at least 1", g.n_recipes >= 1),
            ("grammar.fewest_steps", g.fewest_steps, "at least 2", g.fewest_steps >= 2),
            (
                "grammar.most_steps",
                g.most_steps,
                f"from fewest_steps ({g.fewest_steps}) to n_actions - 1 ({g.n_actions - 1})",
                g.fewest_steps <= g.most_steps < g.n_actions,
            ),
            *(
                (f"grammar.{name}", value, "a probability", 0 <= value <= 1)
                for name, value in (("drop", g.drop), ("swap", g.swap), ("repeat", g.repeat))
            ),
            ("lengths.background_mean", n.background_mean, "above 0", n.background_mean > 0),
            ("lengths.shortest_mean", n.shortest_mean, "above 0", n.shortest_mean > 0),
            ("lengths.longest_mean", n.longest_mean, "at least shortest_mean", n.longest_mean >= n.shortest_mean),
            ("lengths.spread", n.spread, "at least 0", n.spread >= 0),
            ("lengths.pace_spread", n.pace_spread, "at least 0", n.pace_spread >= 0),
            ("lengths.shortest", n.shortest, "at least 1", n.shortest >= 1),
            ("features.dim", f.dim, "at least 1", f.dim >= 1),
            ("features.separation", f.separation, "at least 0", f.separation >= 0),
            ("features.offset", f.offset, "at least 0", f.offset >= 0),
            ("features.memory", f.memory, "from 0 to below 1", 0 <= f.memory < 1),
            ("features.blur", f.blur, "at least 1", f.blur >= 1),
            ("test_every", self.test_every, "at least 2", self.test_every >= 2),
            ("n_videos", self.n_videos, "at least test_every, so that both parts have one",
             self.n_videos >= self.test_every),
            ("seed", self.seed, "at least 0", self.seed >= 0),
        ]  # fmt: skip
        problems = [
            f"{name} is {rule}, not {value}: choose another value" for name, value, rule, good in rules if not good
        ]
        if problems:
            raise InputError(problems)


@dataclass(frozen=True, slots=True)
class SyntheticData:
    """Made-up recordings, all with lengths.

    Attributes:
        videos: in the order of their ids.
        vocabulary: the background has id 0.
        splits: split -> part -> ids; one split with the parts `train` and `test`.
        activities: id -> the recipe that the recording follows.
        recipes: recipe -> its steps, without the background.
    """

    videos: tuple[Video, ...]
    vocabulary: Vocabulary
    splits: Mapping[str, Mapping[str, tuple[str, ...]]]
    activities: Mapping[str, str]
    recipes: Mapping[str, tuple[int, ...]]

    def part(self, part: str, split: str = SPLIT) -> list[Video]:
        """The recordings of a split's part."""
        chosen = set(self.splits[split][part])
        return [video for video in self.videos if video.id in chosen]


def synthesize(config: SyntheticConfig) -> SyntheticData:
    """Made-up recordings; equal configurations give equal ones.

    >>> data = synthesize(SyntheticConfig(n_videos=3))
    >>> [video.id for video in data.part("test")]
    ['made-up-00003']
    """
    recipes = _recipes(config)
    means = action_means(config)
    videos = []
    activities = {}
    for index in range(config.n_videos):
        id = f"made-up-{index + 1:05d}"
        recipe, transcript, lengths = _annotation(config, recipes, index)
        videos.append(
            Video(
                id,
                sum(lengths),
                config.features.dim,
                transcript,
                lengths,
                functools.partial(_features, config, means, index, transcript, lengths),
            )
        )
        activities[id] = f"recipe {recipe + 1}"
    parts = {
        "train": tuple(video.id for i, video in enumerate(videos) if (i + 1) % config.test_every),
        "test": tuple(video.id for i, video in enumerate(videos) if not (i + 1) % config.test_every),
    }
    return SyntheticData(
        tuple(videos),
        Vocabulary(action_names(config.grammar.n_actions), (BACKGROUND,)),
        {SPLIT: parts},
        activities,
        {f"recipe {i + 1}": steps for i, steps in enumerate(recipes)},
    )


def action_names(n_actions: int) -> tuple[str, ...]:
    """`background` and N - 1 actions.

    >>> action_names(3)
    ('background', 'take', 'open')
    """
    numbered = tuple(f"action {i}" for i in range(len(NAMES) + 1, n_actions))
    return (BACKGROUND, *NAMES[: n_actions - 1], *numbered)


def mean_lengths(config: SyntheticConfig) -> NDArray[np.float64]:
    """Frames of each action on average, `[N]`; those of the steps are dealt to the actions by the seed."""
    n = config.lengths
    steps = np.geomspace(n.shortest_mean, n.longest_mean, config.grammar.n_actions - 1)
    return np.concatenate(([n.background_mean], _generator(config, _LENGTHS).permutation(steps)))


def action_means(config: SyntheticConfig) -> NDArray[np.float64]:
    """Mean frame of each action, `[N D]`, of length `separation` in directions drawn from the seed."""
    shape = (config.grammar.n_actions, config.features.dim)
    directions = _generator(config, _MEANS).standard_normal(shape)
    means: NDArray[np.float64] = (
        config.features.separation * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    )
    return means


def slow_noise(generator: np.random.Generator, n_frames: int, dim: int, memory: float) -> NDArray[np.float64]:
    """Noise `[T D]` of variance 1 from the first frame on, whose correlation over k frames is memory**k."""
    from scipy.signal import lfilter

    fresh = generator.standard_normal((n_frames, dim))
    fresh[1:] *= np.sqrt(1 - memory**2)
    noise: NDArray[np.float64] = lfilter([1.0], [1.0, -memory], fresh, axis=0)
    return noise


def blurred(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Moving average `[T D]` over `width` frames about each, fewer at the ends.

    >>> blurred(np.array([[0.0], [0.0], [3.0], [3.0]]), 3).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    sums = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))
    frames = np.arange(len(values))
    first = np.maximum(frames - (width - 1) // 2, 0)
    stop = np.minimum(frames + width // 2 + 1, len(values))
    return (sums[stop] - sums[first]) / (stop - first)[:, None]


def _generator(config: SyntheticConfig, purpose: int, index: int = 0) -> np.random.Generator:
    return np.random.default_rng([config.seed, purpose, index])


def _recipes(config: SyntheticConfig) -> list[tuple[int, ...]]:
    """Steps of each recipe, dealt from shuffled decks of all actions so that each is used about equally often."""
    grammar = config.grammar
    generator = _generator(config, _GRAMMAR)
    deck: list[int] = []
    recipes = []
    for _ in range(grammar.n_recipes):
        n_steps = int(generator.integers(grammar.fewest_steps, grammar.most_steps + 1))
        steps: list[int] = []
        while len(steps) < n_steps:
            fresh = [action for action in deck if action not in steps]
            if not fresh:
                deck = [*deck, *(generator.permutation(grammar.n_actions - 1) + 1).tolist()]
                continue
            steps.append(fresh[0])
            deck.remove(fresh[0])
        recipes.append(tuple(steps))
    return recipes


def _annotation(
    config: SyntheticConfig, recipes: list[tuple[int, ...]], index: int
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Recipe, transcript and lengths of one recording."""
    grammar, lengths = config.grammar, config.lengths
    generator = _generator(config, _ANNOTATION, index)
    recipe = int(generator.integers(len(recipes)))
    order = generator.permutation(len(recipes[recipe]))
    dropped = generator.random(len(order)) < grammar.drop
    kept = [step for i, step in enumerate(recipes[recipe]) if not dropped[i] or i in order[:2]]
    place = int(generator.integers(len(kept) - 1))
    swap, repeat = generator.random(2) < (grammar.swap, grammar.repeat)
    if swap:
        kept[place : place + 2] = kept[place + 1], kept[place]
    elif repeat:
        kept.insert(place + 2, kept[place])
    transcript = (0, *kept, 0)
    pace = lengths.pace_spread * generator.standard_normal()
    deviations = lengths.spread * generator.standard_normal(len(transcript))
    means = mean_lengths(config)[list(transcript)]
    drawn = means * np.exp(pace + deviations - (lengths.spread**2 + lengths.pace_spread**2) / 2)
    frames = np.maximum(np.rint(drawn), lengths.shortest).astype(int)
    return recipe, transcript, tuple(frames.tolist())


def _features(
    config: SyntheticConfig,
    means: NDArray[np.float64],
    index: int,
    transcript: tuple[int, ...],
    lengths: tuple[int, ...],
) -> NDArray[np.float32]:
    f = config.features
    generator = _generator(config, _FEATURES, index)
    signal = blurred(np.repeat(means[list(transcript)], lengths, axis=0), f.blur)
    offset = f.offset * generator.standard_normal(f.dim)
    return (signal + offset + slow_noise(generator, len(signal), f.dim, f.memory)).astype(np.float32)

"""Made-up recordings with known segmentations: transcripts from a grammar, random lengths, features with noise.

A recipe is an order of steps. A recording follows a recipe with omitted, exchanged or repeated steps, begins and ends
with background, and has its own pace. Its features are the mean of each frame's action, blurred at borders, plus an
offset of the recording and slowly changing noise. A recording depends only on the seed and its own number: a larger set
begins with the recordings of a smaller one, and features are generated when they are read.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mucon.arrays import Floats
from mucon.synthetic.grammar_config import SyntheticConfig
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

BACKGROUND = "background"
NAMES = ("take", "open", "pour", "cut", "stir", "fry", "serve", "wash", "peel", "fold", "weigh", "store")
"""Action names; further actions are numbered."""
SPLIT = "1"
_GRAMMAR, _LENGTHS, _MEANS, _ANNOTATION, _FEATURES = range(5)


@dataclass(frozen=True, slots=True)
class SyntheticData:
    """Made-up recordings with lengths.

    Attributes:
        videos: recordings in the order of their ids.
        vocabulary: actions; the background has id 0.
        splits: split -> part -> ids; one split with the parts `train` and `test`.
        activities: id -> recipe of the recording.
        recipes: recipe -> steps, without background.
    """

    videos: tuple[Video, ...]
    vocabulary: Vocabulary
    splits: Mapping[str, Mapping[str, tuple[str, ...]]]
    activities: Mapping[str, str]
    recipes: Mapping[str, tuple[int, ...]]

    def part(self, part: str, split: str = SPLIT) -> list[Video]:
        """The recordings of one part of a split."""
        chosen = set(self.splits[split][part])
        return [video for video in self.videos if video.id in chosen]


def synthesize(config: SyntheticConfig) -> SyntheticData:
    """Generates recordings; deterministic for each configuration.

    >>> data = synthesize(SyntheticConfig(n_videos=3))
    >>> [video.id for video in data.part("test")]
    ['made-up-00003']
    """
    recipes = _recipes(config)
    means, frames = action_means(config), mean_lengths(config)
    videos = []
    activities = {}
    for index in range(config.n_videos):
        id = f"made-up-{index + 1:05d}"
        recipe, transcript, lengths = _annotation(config, recipes, frames, index)
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


def mean_lengths(config: SyntheticConfig) -> Floats:
    """Mean frames of each action `[N]`; the means of the steps are assigned to the actions at random."""
    n = config.lengths
    steps = np.geomspace(n.shortest_mean, n.longest_mean, config.grammar.n_actions - 1)
    return np.concatenate(([n.background_mean], _generator(config, _LENGTHS).permutation(steps)))


def action_means(config: SyntheticConfig) -> Floats:
    """Mean feature vector of each action `[N, D]`, of length `separation` and random direction."""
    shape = (config.grammar.n_actions, config.features.dim)
    directions = _generator(config, _MEANS).standard_normal(shape)
    means: Floats = config.features.separation * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return means


def slow_noise(generator: np.random.Generator, n_frames: int, dim: int, memory: float) -> Floats:
    """Stationary noise `[T, D]` of variance 1 with correlation memory**k over k frames."""
    from scipy.signal import lfilter

    fresh = generator.standard_normal((n_frames, dim))
    fresh[1:] *= np.sqrt(1 - memory**2)
    noise: Floats = lfilter([1.0], [1.0, -memory], fresh, axis=0)
    return noise


def blurred(values: Floats, width: int) -> Floats:
    """Moving average `[T, D]` over `width` frames, fewer at the ends.

    >>> blurred(np.array([[0.0], [0.0], [3.0], [3.0]]), 3).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    sums = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))
    frames = np.arange(len(values))
    first = np.maximum(frames - (width - 1) // 2, 0)
    stop = np.minimum(frames + width // 2 + 1, len(values))
    averages: Floats = (sums[stop] - sums[first]) / (stop - first)[:, None]
    return averages


def _generator(config: SyntheticConfig, purpose: int, index: int = 0) -> np.random.Generator:
    return np.random.default_rng([config.seed, purpose, index])


def _recipes(config: SyntheticConfig) -> list[tuple[int, ...]]:
    """Steps of each recipe, drawn from shuffled decks of all actions so that all are used about equally often."""
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
    config: SyntheticConfig, recipes: list[tuple[int, ...]], means: Floats, index: int
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
    drawn = means[list(transcript)] * np.exp(pace + deviations - (lengths.spread**2 + lengths.pace_spread**2) / 2)
    frames = np.maximum(np.rint(drawn), lengths.shortest).astype(int)
    return recipe, transcript, tuple(frames.tolist())


def _features(
    config: SyntheticConfig,
    means: Floats,
    index: int,
    transcript: tuple[int, ...],
    lengths: tuple[int, ...],
) -> NDArray[np.float32]:
    f = config.features
    generator = _generator(config, _FEATURES, index)
    signal = blurred(np.repeat(means[list(transcript)], lengths, axis=0), f.blur)
    offset = f.offset * generator.standard_normal(f.dim)
    return (signal + offset + slow_noise(generator, len(signal), f.dim, f.memory)).astype(np.float32)

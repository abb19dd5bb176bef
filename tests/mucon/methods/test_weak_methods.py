"""Every method that learns from transcripts learns separable actions, and learns nothing from wrong transcripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mucon.baselines import blind_baseline
from mucon.evaluation import evaluate
from mucon.methods import METHODS, method_named
from mucon.metrics.scores import score
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from tests.helpers.small_methods import TOY

N_ACTIONS, N_VIDEOS = 4, 40
VOCABULARY = Vocabulary(tuple("abcd"))
PATTERNS = ((0, 1, 2), (0, 2, 1, 3))
WEAK = [name for name in METHODS if "alignment" in method_named(name).tasks]


def transcript(pattern: int, shift: int) -> tuple[int, ...]:
    """A pattern whose actions are all shifted in a circle."""
    return tuple((action + shift) % N_ACTIONS for action in PATTERNS[pattern])


def videos(seed: int = 0, *, offset: Callable[[int], int] = lambda _: 0) -> list[Video]:
    """Recordings of three or four actions in several orders, whose features are the action and noise.

    Every pattern occurs with every shift equally often: if the actions of all transcripts are shifted by the same
    number, the transcripts are the same ones. What the actions are called can therefore be known only from which
    recording has which transcript, and not from which transcripts there are.

    Args:
        seed: of lengths and features.
        offset: number of a recording among those with its transcript -> by how much the actions of its given
            transcript are shifted.
    """
    random = np.random.default_rng(seed)
    made = []
    for index in range(N_VIDEOS):
        number, (pattern, shift) = index // 8, divmod(index % 8, N_ACTIONS)
        true = transcript(pattern, shift)
        lengths = random.integers(8, 30, len(true))
        labels = np.repeat(true, lengths)
        features = np.eye(N_ACTIONS)[labels] + random.normal(0, 0.2, (len(labels), N_ACTIONS))
        given = transcript(pattern, shift + offset(number))
        made.append(Video.from_arrays(f"v{index:02}", features.astype(np.float32), given, lengths.tolist()))
    return made


def accuracy(name: str, folder: Path, training: list[Video], test: list[Video]) -> float:
    """MoF of the method's main prediction on test recordings."""
    method = method_named(name)
    config = method.config().with_values({**TOY[name], "training.progress_videos": 0})
    method.train(config, training, VOCABULARY, folder=folder, device="cpu")
    return evaluate(method.load(folder / "checkpoint"), test).scores[method.main]["mof"]


def blind(training: list[Video], test: list[Video]) -> float:
    """MoF of the most frequent training transcript with equal lengths."""
    return score([video.truth for video in test], blind_baseline(training, test), ()).values["mof"]


@pytest.mark.parametrize("name", WEAK)
def test_separable_actions_are_learned_and_wrong_transcripts_teach_nothing(tmp_path: Path, name: str):
    """Each recording has one of three wrong transcripts, and all four names of an action fit as many transcripts.

    A plain shuffle keeps a part of the right ones, and transcripts that are not closed under shifts betray the names:
    some methods learn from either.
    """
    known, test = videos(), videos(seed=1)
    wrong = videos(offset=lambda number: 1 + number % 3)
    assert Counter(video.transcript for video in wrong) == Counter(video.transcript for video in known)
    assert not any(video.transcript == other.transcript for video, other in zip(wrong, known, strict=True))
    assert accuracy(name, tmp_path / "right", known, test) > 0.95
    assert accuracy(name, tmp_path / "wrong", wrong, test) < blind(known, test) + 0.02

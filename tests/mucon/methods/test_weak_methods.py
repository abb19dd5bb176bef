"""Every method that learns from transcripts learns separable actions, and learns nothing from wrong transcripts."""

from __future__ import annotations

import dataclasses
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
TRANSCRIPTS = ((0, 1, 2), (2, 0, 3), (1, 3), (3, 2, 1, 0), (0, 3, 1))
WEAK = [name for name in METHODS if "alignment" in method_named(name).tasks]


def videos(seed: int = 0) -> list[Video]:
    """Recordings of two to four actions in several orders, whose features are the action and noise."""
    random = np.random.default_rng(seed)
    made = []
    for index in range(N_VIDEOS):
        transcript = TRANSCRIPTS[index % len(TRANSCRIPTS)]
        lengths = random.integers(8, 30, len(transcript))
        labels = np.repeat(transcript, lengths)
        features = np.eye(N_ACTIONS)[labels] + random.normal(0, 0.2, (len(labels), N_ACTIONS))
        made.append(Video.from_arrays(f"v{index:02}", features.astype(np.float32), transcript, lengths.tolist()))
    return made


def with_other_transcripts(known: list[Video]) -> list[Video]:
    """The recordings with transcripts that others have, without lengths.

    None keeps its own by chance: a fifth of right transcripts suffices for some methods, since the actions separate.
    """
    random = np.random.default_rng(1)
    others = [[one for one in TRANSCRIPTS if one != video.transcript] for video in known]
    return [
        dataclasses.replace(video, transcript=other[random.integers(len(other))], lengths=None)
        for video, other in zip(known, others, strict=True)
    ]


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
    known, test = videos(), videos(seed=1)
    right = accuracy(name, tmp_path / "right", known, test)
    wrong = accuracy(name, tmp_path / "wrong", with_other_transcripts(known), test)
    assert right > 0.95
    assert wrong < blind(known, test) + 0.15

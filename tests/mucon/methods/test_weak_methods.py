"""Every method that learns from transcripts learns separable actions, and learns nothing from wrong transcripts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mucon.baselines import blind_baseline
from mucon.evaluation import evaluate
from mucon.methods import method_named
from mucon.metrics.scores import score
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

N_ACTIONS, N_VIDEOS = 4, 40
VOCABULARY = Vocabulary(tuple("abcd"))
TRANSCRIPTS = ((0, 1, 2), (2, 0, 3), (1, 3), (3, 2, 1, 0), (0, 3, 1))
TOY: dict[str, dict[str, object]] = {
    "mucon": {
        "backbone.channels": 16,
        "backbone.n_groups": 4,
        "backbone.n_layers": 1,
        "backbone.pool_after": (),
        "segment_branch.hidden": 16,
        "training.epochs": 12,
        "training.optimiser": "adam",
        "training.learning_rate": 0.005,
        "training.weight_decay": 0.0,
    },
    "hmm_rnn": {
        "network.hidden": 16,
        "network.window": 3,
        "network.max_states": 4,
        "training.epochs": 8,
        "training.realign_every": 2,
        "training.learning_rate": 0.02,
    },
    "ectc": {
        "network.channels": 16,
        "network.n_groups": 4,
        "network.n_layers": 1,
        "network.pool_after": (),
        "training.epochs": 20,
        "training.learning_rate": 0.005,
    },
    "atba": {
        "network.maps": 16,
        "network.layers": 1,
        "training.epochs": 6,
        "training.stage1_epochs": 2,
        "training.accumulate": 1,
        "training.learning_rate": 0.005,
    },
    "nnv": {"network.hidden": 16, "network.window": 5, "training.epochs": 6, "training.learning_rate": 0.01},
    "cdfl": {"network.hidden": 16, "network.window": 5, "training.epochs": 8, "training.learning_rate": 0.01},
    "isba": {
        "network.channels": (16,),
        "network.maps": 24,
        "network.kernel": 3,
        "training.epochs": 10,
        "training.learning_rate": 0.002,
    },
}
"""Settings of each method with which it learns the toy data in seconds."""


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


@pytest.mark.parametrize("name", TOY)
def test_separable_actions_are_learned_and_wrong_transcripts_teach_nothing(tmp_path: Path, name: str):
    known, test = videos(), videos(seed=1)
    right = accuracy(name, tmp_path / "right", known, test)
    wrong = accuracy(name, tmp_path / "wrong", with_other_transcripts(known), test)
    assert right > 0.95
    assert wrong < blind(known, test) + 0.15

"""Small recordings, configurations and stores, generated from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mucon.config import TrainConfig
from mucon.model import Decoded, MuConNetwork
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from storage import StoreWriter

VOCABULARY = Vocabulary(("rest", "pour", "stir", "drink"), background=("rest",))
TRANSCRIPTS = ((0, 1, 2, 0), (0, 2, 3, 0), (0, 1, 3, 0), (1, 2), (3,))
SMALL: dict[str, Any] = {
    "backbone.channels": 16,
    "backbone.n_groups": 4,
    "backbone.n_layers": 4,
    "backbone.pool_after": (1, 2),
    "segment_branch.hidden": 8,
    "training.epochs": 2,
}
"""Settings for a step of milliseconds."""


def small_config(**settings: Any) -> TrainConfig:
    """The small configuration with settings whose dots are written as two underscores."""
    return TrainConfig().with_values({**SMALL, **{path.replace("__", "."): value for path, value in settings.items()}})


def network_output(model: MuConNetwork, features: Tensor) -> tuple[Tensor, Decoded]:
    """Frame log probabilities `[T, N]` and the greedily decoded segments of features `[T, D]`."""
    latent, log_probs = model.encode(features)
    return log_probs, model.name_segments(latent)[0]


def make_video(
    name: str, transcript: Sequence[int], lengths: Sequence[int], *, dim: int = 5, seed: int = 0, noise: float = 0.3
) -> Video:
    """A recording with a mean per action; float32 features that depend on name and seed."""
    random = np.random.default_rng([seed, *name.encode()])
    means = np.random.default_rng(seed).normal(size=(VOCABULARY.n_actions, dim))
    labels = np.repeat(np.asarray(transcript, dtype=np.int64), lengths)
    features = (means[labels] + noise * random.normal(size=(len(labels), dim))).astype(np.float32)
    return Video.from_arrays(name, features, transcript, lengths)


def small_videos(n: int = 5, *, dim: int = 5, seed: int = 0) -> list[Video]:
    """`v00`, `v01`, ... of 5 to 60 frames and 1 to 4 segments."""
    random = np.random.default_rng(seed)
    videos = []
    for index in range(n):
        transcript = TRANSCRIPTS[index % len(TRANSCRIPTS)]
        lengths = random.integers(5, 16, size=len(transcript)).tolist()
        videos.append(make_video(f"v{index:02}", transcript, lengths, dim=dim, seed=seed))
    return videos


def write_store(path: Path, *, n_train: int = 5, n_test: int = 3, dim: int = 5, seed: int = 0) -> Path:
    """`small_videos` as a store with the split `1`."""
    arguments = {"vocabulary": VOCABULARY.actions, "background": VOCABULARY.background}
    with StoreWriter(path, dim=dim, dtype="float32", **arguments) as writer:
        for index, video in enumerate(small_videos(n_train + n_test, dim=dim, seed=seed)):
            part = "1:train" if index < n_train else "1:test"
            writer.add(video.id, video.read(), transcript=video.transcript, lengths=video.lengths, splits=(part,))
    return path

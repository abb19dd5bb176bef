"""Exported folders of networks that nobody has trained, whose predictions vary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mucon.checkpoint import Checkpoint, saved_of
from mucon.checkpoint_files import Progress
from mucon.decoding.fitted import FittedLengths
from mucon.decoding.fusion import TrainingFacts
from mucon.export import folder as exported
from mucon.inference import MuConPredictor
from mucon.method import Predictor
from mucon.methods.frames.predictor import FramePredictor
from mucon.model import NetworkSize, build_model
from tests.helpers.factories import VOCABULARY, small_config

DIM, N = 5, 4
FACTS = TrainingFacts(
    transcripts=((0, 1, 0), (0, 1, 2, 0), (3,)),
    mean_lengths=(9.0, 14.0, 7.0, 30.0),
    frame_shares=(0.4, 0.3, 0.2, 0.1),
    fitted=FittedLengths(centre="segment", means=(9.0, 12.0, 6.0, 7.0), spreads=(0.3, 0.5, 0.2, 0.9)),
)


def network(seed: int = 0, *, end: float = -0.5, max_segments: int = 6, **settings: Any) -> Checkpoint:
    """A fresh network whose symbols vary; `end` makes the end symbol likelier or less likely."""
    config = small_config(seed=seed, **settings)
    size = NetworkSize(dim=DIM, n_actions=N, max_segments=max_segments)
    model = build_model(size, config.backbone, config.segment_branch, seed=seed)
    with torch.no_grad():
        for parameter in model.segment_branch.parameters():
            parameter.mul_(3)
        model.segment_branch.transcript_head[-1].bias[N] = end
    return Checkpoint(model.eval(), config, VOCABULARY, Progress(epoch=2, finished=True), facts=FACTS)


def export(target: Path, members: Sequence[Checkpoint], **options: Any) -> Path:
    """An exported folder of networks."""
    trainings = {f"run_{i}": saved_of(one) for i, one in enumerate(members)}
    exported.write(target, trainings, name="a model", scores=lambda _: [], **options)
    return target


def features(T: int, seed: int = 0) -> torch.Tensor:
    """Random features `[T, DIM]`."""
    return torch.randn(T, DIM, generator=torch.Generator().manual_seed(seed))


def frame_log_probs(predictor: Predictor, given: torch.Tensor) -> torch.Tensor:
    """Log probabilities `[T, N]` of each frame of features `[T, D]`, from the network of a predictor."""
    if isinstance(predictor, MuConPredictor):
        return predictor.checkpoint.model.encode(given)[1]
    assert isinstance(predictor, FramePredictor)
    return predictor.classifier.frame_log_probs(given)


def changed(path: Path) -> None:
    """Flips a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

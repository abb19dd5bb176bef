"""MuCon's trained or partly trained model as a checkpoint folder; the files are those of `mucon.checkpoint_files`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from mucon.checkpoint_files import (
    CONFIG,
    FACTS,
    STATE,
    Progress,
    Saved,
    exists,
    load_weights,
    method_of,
    of_run,
    parsing,
    read,
    trained_on,
    write,
)
from mucon.config import TrainConfig
from mucon.configuration import DEFAULT_METHOD
from mucon.decoding.fusion import TrainingFacts
from mucon.errors import InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.identity.weights import weights_sha256
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.model.ensemble import MuConEnsemble
from mucon.vocabulary import Vocabulary

__all__ = [
    "Checkpoint",
    "Progress",
    "TrainingFacts",
    "exists",
    "load",
    "method_of",
    "of_run",
    "save",
    "trained_on",
    "weights_sha256",
]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model and everything that is needed to use it or to train it further.

    Attributes:
        config: everything that determines the run besides its data.
        optimiser: the optimiser's own tensors; empty if it has none.
        facts: None before training finishes, and in imported checkpoints.
        trained_on: the data of the training; None in checkpoints of earlier versions and in imported ones.
    """

    model: MuConNetwork
    config: TrainConfig
    vocabulary: Vocabulary
    progress: Progress
    optimiser: Mapping[str, Tensor] = field(default_factory=dict)
    facts: TrainingFacts | None = None
    trained_on: TrainedOn | None = None


def saved_of(checkpoint: Checkpoint) -> Saved:
    """The content of the checkpoint's files."""
    return Saved(
        method=DEFAULT_METHOD,
        config=checkpoint.config.to_dict(),
        vocabulary=checkpoint.vocabulary,
        size=checkpoint.model.size.to_dict(),
        progress=checkpoint.progress,
        weights=checkpoint.model.state_dict(),
        optimiser=checkpoint.optimiser,
        facts=None if checkpoint.facts is None else asdict(checkpoint.facts),
        trained_on=checkpoint.trained_on,
    )


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint; either the old or the new one is complete at any time."""
    write(folder, saved_of(checkpoint))


def build_network(size: NetworkSize, config: TrainConfig) -> MuConNetwork:
    """A network, or an ensemble of networks, of this size."""
    networks = [
        build_model(size, config.backbone, config.segment_branch, seed=config.seed) for _ in range(size.members)
    ]
    return networks[0] if len(networks) == 1 else MuConEnsemble(networks)


def load(folder: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Reads a checkpoint of MuCon; the model is in evaluation mode.

    Raises:
        InputError: no checkpoint, one of another method or format version, damaged files or weights that do not fit.
    """
    folder = Path(folder)
    saved = read(folder)
    if saved.method != DEFAULT_METHOD:
        raise InputError(
            Problem(rule="mismatch", place=str(folder), value=saved.method, expected=f"method {DEFAULT_METHOD!r}")
        )
    with parsing(folder / CONFIG):
        config = TrainConfig.from_dict(saved.config)
    with parsing(folder / STATE):
        size = NetworkSize(**saved.size)
    with parsing(folder / FACTS):
        facts = None if saved.facts is None else TrainingFacts.from_dict(saved.facts)
    model = build_network(size, config)
    load_weights(model, saved, folder)
    return Checkpoint(
        model.to(device).eval(),
        config,
        saved.vocabulary,
        saved.progress,
        saved.optimiser,
        facts,
        saved.trained_on,
    )

"""A trained or half-trained model as a folder: safetensors weights and readable JSON, no pickle.

`FOLDER/weights.safetensors`, `config.json`, `vocabulary.json`, `state.json` (format version, size, progress), and
`optimiser.safetensors` where the optimiser remembers more than the weights, and `training.json` once training has
ended: what inference may use of the training videos. A new
checkpoint is written beside the old one and takes its place by renaming, so that one whole checkpoint always stands.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mucon.config import TrainConfig
from mucon.errors import InputError
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.vocabulary import Vocabulary
from storage.failpoints import reach

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far training has come.

    Attributes:
        epoch: whole epochs done.
        step_in_epoch: videos done in the epoch after them.
        sums: sums over those videos, by name.
        seconds: wall time spent training.
        finished: nothing is left to train.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """What inference may use of the training videos; made when training ends.

    Attributes:
        transcripts: the distinct ones, sorted.
        mean_lengths: `[N]` frames of a segment of each action, where the network sees them.
        frame_shares: `[N]` share of each action in the frames, where the network sees them.
    """

    transcripts: tuple[tuple[int, ...], ...]
    mean_lengths: tuple[float, ...]
    frame_shares: tuple[float, ...]

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Of the dictionary that `dataclasses.asdict` makes."""
        return cls(
            transcripts=tuple(tuple(one) for one in value["transcripts"]),
            mean_lengths=tuple(value["mean_lengths"]),
            frame_shares=tuple(value["frame_shares"]),
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model with what it needs to be used or trained further.

    Attributes:
        model: the network.
        config: everything that decides the run besides its data.
        vocabulary: the actions.
        progress: how far training has come.
        optimiser: the optimiser's own tensors, where it has any.
        facts: of the training videos; None before training ends, and in checkpoints of others.
    """

    model: MuConNetwork
    config: TrainConfig
    vocabulary: Vocabulary
    progress: Progress
    optimiser: Mapping[str, Tensor] = field(default_factory=dict)
    facts: TrainingFacts | None = None


def weights_sha256(model: torch.nn.Module) -> str:
    """Sha256 of all weight tensors in the order of their names: equal digest, equal bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint; at every moment the old or the new one is whole."""
    fresh, previous = _beside(folder, "new"), _beside(folder, "previous")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    tensors: Mapping[str, Tensor] = {
        name: tensor.detach().cpu().clone() for name, tensor in checkpoint.model.state_dict().items()
    }
    save_file(dict(tensors), fresh / "weights.safetensors")
    if checkpoint.optimiser:
        optimiser = {name: tensor.detach().cpu().clone() for name, tensor in checkpoint.optimiser.items()}
        save_file(optimiser, fresh / "optimiser.safetensors")
    reach("checkpoint.weights")
    if checkpoint.facts is not None:
        _write_json(fresh / "training.json", asdict(checkpoint.facts))
    _write_json(fresh / "config.json", checkpoint.config.to_dict())
    _write_json(fresh / "vocabulary.json", checkpoint.vocabulary.to_dict())
    state = {"format_version": FORMAT_VERSION, "size": asdict(checkpoint.model.size)}
    _write_json(fresh / "state.json", state | {"progress": asdict(checkpoint.progress)})
    _sync(fresh)
    if folder.exists():
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
        reach("checkpoint.between")
    fresh.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(previous, ignore_errors=True)


def of_run(folder: Path) -> Path:
    """The checkpoint folder of a run, or the folder itself where that is one."""
    return folder / "checkpoint" if exists(folder / "checkpoint") else folder


def exists(folder: Path) -> bool:
    """Whether a whole checkpoint stands at `folder` (or was being replaced there)."""
    return _whole(folder) is not None


def load(folder: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        InputError: no checkpoint, another format version, damaged files or weights that do not fit.
    """
    found = _whole(Path(folder))
    if found is None:
        raise InputError(f"no checkpoint in {folder}: it would hold state.json; train first, or name RUN/checkpoint")
    state = _read_json(found / "state.json")
    if state.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{found / 'state.json'} has format version {state.get('format_version')}, this mucon reads "
            f"{FORMAT_VERSION}: use the mucon that wrote it"
        )
    try:
        config = TrainConfig.from_dict(_read_json(found / "config.json"))
        vocabulary = Vocabulary.from_dict(_read_json(found / "vocabulary.json"))
        size, progress = NetworkSize(**state["size"]), Progress(**state["progress"])
        told = found / "training.json"
        facts = TrainingFacts.from_dict(_read_json(told)) if told.exists() else None
    except (KeyError, TypeError) as error:
        raise InputError(f"{found} is damaged, its JSON files lack what they held ({error}): restore a copy") from error
    model = build_model(size, config.backbone, config.segment_branch, seed=config.seed)
    try:
        model.load_state_dict(_tensors(found / "weights.safetensors"))
    except RuntimeError as error:
        raise InputError(_damaged(found / "weights.safetensors", error)) from error
    state_of_optimiser = found / "optimiser.safetensors"
    optimiser = _tensors(state_of_optimiser, device) if state_of_optimiser.exists() else {}
    return Checkpoint(model.to(device).eval(), config, vocabulary, progress, optimiser, facts)


def _tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    try:
        return {name: tensor.to(device) for name, tensor in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise InputError(_damaged(path, error)) from error


def _damaged(path: Path, error: Exception) -> str:
    return f"{path} is damaged or of another model ({' '.join(str(error).split())}): restore a copy"


def _beside(folder: Path, word: str) -> Path:
    return folder.with_name(f"{folder.name}.{word}")


def _whole(folder: Path) -> Path | None:
    for candidate in (folder, _beside(folder, "previous")):
        if (candidate / "state.json").is_file():
            return candidate
    return None


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}): restore it from a copy") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} holds a JSON object, not a {type(value).__name__}: restore it from a copy")
    return value


def _sync(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        if path.is_dir() and path != folder:
            continue
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

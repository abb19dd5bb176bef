"""The files of a checkpoint, the same for every method: safetensors weights and readable JSON, no pickle.

`FOLDER/weights.safetensors`, `config.json`, `vocabulary.json` and `state.json` (format version, method, size of the
network, progress); `data.json` with the data that it was trained on, see `mucon.identity.trained_on`; `contract.json`
once training has finished, see `mucon.identity.contract`;
`optimiser.safetensors` if the optimiser keeps state of its own, and `learner.safetensors` if the method does;
`training.json` once training has finished, if
inference needs facts about the training videos. A new checkpoint is written beside the old one, or in the writer's
staging folder, and replaces it by one exchange or by renaming, so that a complete checkpoint exists at any time. Once
training has finished, nothing needs the state of the optimiser, and it may be absent.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from mucon.configuration import DEFAULT_METHOD
from mucon.errors import InputError, Problem
from mucon.identity.contract import Contract
from mucon.identity.trained_on import TrainedOn
from mucon.videos import Source
from mucon.vocabulary import Vocabulary
from storage.failpoints import reach
from storage.fencing import ALONE, SupersededError, Writer
from storage.folders import exchange

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT_VERSION = 1
STATE = "state.json"
CONFIG = "config.json"
FACTS = "training.json"
DATA = "data.json"
CONTRACT = "contract.json"
WEIGHTS = "weights.safetensors"
OPTIMISER = "optimiser.safetensors"
LEARNER = "learner.safetensors"
RESUMING = (OPTIMISER, LEARNER)
"""Files that only a training that resumes reads."""
_VOCABULARY = "vocabulary.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Position in a training run.

    Attributes:
        epoch: completed epochs.
        step_in_epoch: completed steps of the next epoch.
        sums: sums of the losses and norms of those steps, by name.
        seconds: wall time spent training.
        finished: training is complete.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Content of a checkpoint folder.

    Attributes:
        method: name of the method that trains the model.
        config: its configuration as `Config.to_dict` returns it.
        vocabulary: the actions.
        size: the parts of the network's size that the data determine; plain values.
        progress: position in the training run.
        weights: tensors by their names in the network's `state_dict`, on the CPU.
        optimiser: the optimiser's own tensors, on the CPU; empty if it has none.
        learner: tensors that the method needs to resume besides weights and optimiser, such as labels of the training
            videos, on the CPU; empty if there are none.
        facts: facts about the training videos as plain values, or None.
        trained_on: the data of the training; None in checkpoints of earlier versions and in imported ones.
        contract: what the model expects of features; None before training finishes.
    """

    method: str
    config: Mapping[str, Any]
    vocabulary: Vocabulary
    size: Mapping[str, Any]
    progress: Progress
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor] = field(default_factory=dict)
    learner: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] | None = None
    trained_on: TrainedOn | None = None
    contract: Contract | None = None


def write(folder: Path, saved: Saved, writer: Writer = ALONE) -> None:
    """Writes a checkpoint; either the old or the new one is complete at any time.

    Raises:
        SupersededError: another process has taken over the run folder; the checkpoint there is left as it is.
    """
    fresh = _beside(folder, "new") if writer.staging is None else writer.staging / folder.name
    previous = _beside(folder, "previous")
    writer.confirm()
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(fresh, ignore_errors=True)
    with writer.writing():
        fresh.mkdir()
        write_files(fresh, saved, writer)
        writer.settle()
        if 0 < writer.number < writer_of(folder):
            raise SupersededError(f"{folder} contains a checkpoint of a later writer")
        writer.confirm_for(folder)
        if not folder.exists():
            fresh.rename(folder)
        elif not exchange(fresh, folder):
            _swap(fresh, folder, previous)
    _sync(folder.parent)
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(previous, ignore_errors=True)


def write_files(fresh: Path, saved: Saved, writer: Writer = ALONE) -> None:
    """Writes the files of a checkpoint into an empty folder and flushes them to disk."""
    _save(saved.weights, fresh / WEIGHTS)
    for name, tensors in ((OPTIMISER, saved.optimiser), (LEARNER, saved.learner)):
        if tensors:
            _save(tensors, fresh / name)
    reach("checkpoint.weights")
    if saved.facts is not None:
        write_json(fresh / FACTS, saved.facts)
    if saved.trained_on is not None:
        write_json(fresh / DATA, saved.trained_on.to_dict())
    if saved.contract is not None:
        write_json(fresh / CONTRACT, saved.contract.to_dict())
    write_json(fresh / CONFIG, saved.config)
    write_json(fresh / _VOCABULARY, saved.vocabulary.to_dict())
    state = {"format_version": FORMAT_VERSION, "method": saved.method, "size": dict(saved.size)}
    write_json(fresh / STATE, state | {"progress": asdict(saved.progress), "writer": writer.number})
    _sync(fresh)


def _swap(fresh: Path, folder: Path, previous: Path) -> None:
    """Replaces a folder in two steps, on a file system that cannot exchange two."""
    shutil.rmtree(previous, ignore_errors=True)
    folder.rename(previous)
    reach("checkpoint.between")
    try:
        fresh.rename(folder)
    except FileNotFoundError:  # a successor has removed it, and what was moved is the successor's
        if not folder.exists():
            previous.rename(folder)
        raise


def writer_of(folder: Path) -> int:
    """Number of the writer of a checkpoint, see `storage.fencing.Writer`; 0 if there is none that can be read."""
    place = _complete(folder)
    try:
        return int(_read_json(place / STATE).get("writer", 0)) if place is not None else 0
    except (InputError, TypeError, ValueError):
        return 0


def of_run(folder: Path) -> Path:
    """The checkpoint folder inside a run folder or a trial folder; the folder itself if it contains neither."""
    inner = (folder / "checkpoint", folder / "run" / "checkpoint")
    return next((path for path in inner if exists(path)), folder)


def exists(folder: Path) -> bool:
    """Whether `folder` contains a complete checkpoint, or did so when a writer was killed while replacing it."""
    return _complete(folder) is not None


def method_of(folder: Path) -> str:
    """Name of the method that wrote a checkpoint.

    Raises:
        InputError: no checkpoint, another format version, or a damaged `state.json`.
    """
    return str(_state(_existing(folder)).get("method", DEFAULT_METHOD))


def read(folder: Path) -> Saved:
    """Reads a checkpoint.

    Raises:
        InputError: no checkpoint, another format version, or damaged files.
    """
    place = _existing(folder)
    state, weights = _state(place), _tensors(place / WEIGHTS)
    n_weights, most = sum(one.numel() for one in weights.values()), {"members": len(weights)}
    with parsing(place / STATE):
        size, progress = dict(state["size"]), Progress(**state["progress"])
        if not all(isinstance(one, int) and 1 <= one <= most.get(name, n_weights) for name, one in size.items()):
            raise TypeError("sizes that are no whole numbers, or too large for the weights")
    optional = {name: _tensors(place / name) if (place / name).exists() else {} for name in RESUMING}
    return Saved(
        method=str(state.get("method", DEFAULT_METHOD)),
        config=_read_json(place / CONFIG),
        vocabulary=_vocabulary(place / _VOCABULARY),
        size=size,
        progress=progress,
        weights=weights,
        optimiser=optional[OPTIMISER],
        learner=optional[LEARNER],
        facts=_read_json(place / FACTS) if (place / FACTS).exists() else None,
        trained_on=_trained_on(place / DATA),
        contract=_contract(place / CONTRACT),
    )


def trained_on(folder: Path) -> TrainedOn | None:
    """The data that the model of a checkpoint folder was trained on; None if it is not recorded.

    Raises:
        InputError: no checkpoint, or a damaged record.
    """
    return _trained_on(_existing(folder) / DATA)


def contract_of(folder: Path) -> Contract:
    """The feature contract of a checkpoint folder; without statistics if its version had none.

    Raises:
        InputError: no checkpoint, another format version, or damaged files.
    """
    place = _existing(folder)
    written = _contract(place / CONTRACT)
    if written is not None:
        return written
    data = _trained_on(place / DATA)
    times = Source() if data is None else data.source
    with parsing(place / STATE):
        dim = int(_state(place)["size"]["dim"])
    return Contract(
        dim=dim, vocabulary=_vocabulary(place / _VOCABULARY),
        fps=times.fps, window=times.window, stride=times.stride, offset=times.offset,
    )  # fmt: skip


@contextlib.contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Turns errors of the block into problems of a file.

    Raises:
        InputError: the block raises `LookupError`, `TypeError` or `ValueError` (keys or values of another kind), or an
            `InputError` whose places are then inside `path`.
    """
    try:
        yield
    except InputError as error:
        raise InputError(error.under(path)) from error
    except (LookupError, TypeError, ValueError) as error:
        message = f"missing or invalid entries ({type(error).__name__}: {error})"
        raise InputError(_damaged(path, message)) from error


def load_weights(model: nn.Module, saved: Saved, folder: Path) -> None:
    """Copies the weights of a checkpoint into a network.

    Args:
        model: changed in place.
        saved: content of `folder`.
        folder: named if the weights do not fit.

    Raises:
        InputError: names or shapes of the weights differ from the network's.
    """
    try:
        model.load_state_dict(dict(saved.weights))
    except RuntimeError as error:
        raise InputError(_damaged(folder / WEIGHTS, f"weights do not fit the network ({_one_line(error)})")) from error


def _save(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors with the permissions that the process gives other files; safetensors creates 0600."""
    from safetensors.torch import save_file

    path.touch()
    permissions = path.stat().st_mode & 0o777
    save_file({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, path)
    path.chmod(permissions)


def _existing(folder: Path) -> Path:
    complete = _complete(Path(folder))
    if complete is None:
        hint = "train a model first, or pass a run folder or its checkpoint folder"
        problem = Problem(
            rule="missing", place=str(folder), message=f"no checkpoint (it contains no {STATE})", hint=hint
        )
        raise InputError(problem)
    return complete


def _state(place: Path) -> dict[str, Any]:
    state = _read_json(place / STATE)
    version = state.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            Problem(
                rule="version",
                place=str(place / STATE),
                value=version,
                message=f"unsupported format version {version}, expected {FORMAT_VERSION}",
                hint="use the version of mucon that wrote the checkpoint",
            )
        )
    return state


def _trained_on(path: Path) -> TrainedOn | None:
    if not path.exists():
        return None
    with parsing(path):
        return TrainedOn.from_dict(_read_json(path))


def _contract(path: Path) -> Contract | None:
    if not path.exists():
        return None
    with parsing(path):
        return Contract.from_dict(_read_json(path))


def _vocabulary(path: Path) -> Vocabulary:
    with parsing(path):
        return Vocabulary.from_dict(_read_json(path))


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except (SafetensorError, OSError) as error:
        raise InputError(_damaged(path, f"not readable as safetensors ({_one_line(error)})")) from error


def _damaged(path: Path, message: str) -> Problem:
    return Problem(rule="damaged", place=str(path), message=message, hint="restore a copy")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _beside(folder: Path, word: str) -> Path:
    return folder.with_name(f"{folder.name}.{word}")


def _complete(folder: Path) -> Path | None:
    candidates = (folder, _beside(folder, "previous"))
    return next((path for path in candidates if (path / STATE).is_file()), None)


def write_json(path: Path, value: Any) -> None:
    """Writes a value as readable JSON."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(_damaged(path, f"not readable as JSON ({_one_line(error)})")) from error
    if not isinstance(value, dict):
        raise InputError(_damaged(path, f"expected a JSON object, got {type(value).__name__}"))
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

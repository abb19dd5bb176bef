"""A trial: everything that a worker needs for one training and one evaluation of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mucon
from mucon import checkpoint
from mucon.config import TrainConfig
from sweeps.service.trials.identity import evaluation_identity, training_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One training and one evaluation of it.

    Attributes:
        identity: identity of the training, the name of the trial's directory.
        evaluation: identity of the evaluation.
        config: the full configuration, including the seed.
        differences: path -> value of the settings that differ from the defaults.
        split: name of the split.
        data_fingerprint: hash of the split's videos.
        store: absolute path of the store.
        part: the evaluated part of the split.
        task: `segmentation` or `alignment`.
    """

    identity: str
    evaluation: str
    config: TrainConfig
    differences: Mapping[str, Any]
    split: str
    data_fingerprint: str
    store: str
    part: str = "test"
    task: str = "segmentation"

    @property
    def key(self) -> str:
        """Identity of training and evaluation together, which identifies a cell of a table."""
        return f"{self.identity}-{self.evaluation}"

    @property
    def decoding_choices(self) -> dict[str, Any]:
        """Path -> value of the decoding settings that differ from the defaults."""
        return _decoding_choices(self.differences)

    @classmethod
    def of(
        cls, config: TrainConfig, *, split: str, data_fingerprint: str, store: str, task: str = "segmentation"
    ) -> Trial:
        """The trial of a configuration, including its seed, on a split.

        Raises:
            InputError: the model of `training.warm_start` is missing or damaged.
        """
        config = TrainConfig.from_dict(config.to_dict())  # turns 1 into 1.0 for settings that are floats
        differences = {path: value for path, value in config.differences().items() if path != "seed"}
        return cls(
            identity=training_identity(
                _identifying(config),
                split=split,
                seed=config.seed,
                fingerprint=data_fingerprint,
                numerics=mucon.NUMERICS,
            ),
            evaluation=evaluation_identity(_decoding_choices(differences), task=task),
            config=config,
            differences=differences,
            split=split,
            data_fingerprint=data_fingerprint,
            store=store,
            task=task,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for trial.json and for workers."""
        return {
            "identity": self.identity,
            "evaluation": self.evaluation,
            "method": "mucon",
            "config": self.config.to_dict(),
            "differences": dict(self.differences),
            "split": self.split,
            "seed": self.config.seed,
            "data_fingerprint": self.data_fingerprint,
            "numerics": mucon.NUMERICS,
            "store": self.store,
            "part": self.part,
            "task": self.task,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Trial:
        """The inverse of `to_dict`."""
        return cls(
            identity=value["identity"],
            evaluation=value["evaluation"],
            config=TrainConfig.from_dict(value["config"]),
            differences=value["differences"],
            split=value["split"],
            data_fingerprint=value["data_fingerprint"],
            store=value["store"],
            part=value["part"],
            task=value.get("task", "segmentation"),  # absent in older trials
        )


def _decoding_choices(differences: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in differences.items() if path.startswith("decoding.")}


def _identifying(config: TrainConfig) -> dict[str, Any]:
    """The settings of an identity; the model of `training.warm_start` is identified by its weights, not its path."""
    settings = config.trained_differences()
    if config.training.warm_start is not None:
        folder = checkpoint.of_run(Path(config.training.warm_start).absolute())
        state = folder / "state.json"
        settings["training.warm_start"] = _weights_sha256(folder, state.stat().st_mtime_ns if state.exists() else 0)
    return settings


@cache
def _weights_sha256(folder: Path, modified: int) -> str:
    """Digest of a checkpoint's weights; all cells of a sweep share the call, a rewritten checkpoint is read again."""
    return checkpoint.weights_sha256(checkpoint.load(folder).model)


def by_training(trials: Iterable[Trial]) -> list[tuple[Trial, ...]]:
    """Groups trials by training, in the order of each training's first trial."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.identity, []).append(trial)
    return [tuple(group) for group in groups.values()]

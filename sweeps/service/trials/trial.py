"""A trial: one training and one evaluation of it, as everything that a worker needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mucon
from mucon import checkpoint
from mucon.config import TrainConfig
from sweeps.service.trials.identity import evaluation_identity, training_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One training and one evaluation of it: everything that a worker needs to know.

    Attributes:
        identity: of the training; the trial folder's name.
        evaluation: identity of the evaluation.
        config: the full configuration, with its seed.
        differences: what of it is not the default, by path.
        split: name of the split.
        data_fingerprint: of that split's videos.
        store: absolute path of the store.
        part: what is evaluated.
        task: with which task.
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
        """Of the training and the evaluation together: what a cell of a table is."""
        return f"{self.identity}-{self.evaluation}"

    @property
    def decoding_choices(self) -> dict[str, Any]:
        """What of the decoding is not the default, by path."""
        return _decoding_choices(self.differences)

    @classmethod
    def of(
        cls, config: TrainConfig, *, split: str, data_fingerprint: str, store: str, task: str = "segmentation"
    ) -> Trial:
        """The trial that a configuration with its seed makes on a split."""
        config = TrainConfig.from_dict(config.to_dict())  # floats are floats, whoever wrote 1 for 1.0
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
        """Plain values, for trial.json and for the way to a worker."""
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
            task=value.get("task", "segmentation"),  # trials of before there was another
        )


def _decoding_choices(differences: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in differences.items() if path.startswith("decoding.")}


def _identifying(config: TrainConfig) -> dict[str, Any]:
    """The settings of an identity; a model that training starts from counts by its weights, wherever it lies."""
    settings = config.trained_differences()
    if config.training.warm_start is not None:
        trained = checkpoint.load(checkpoint.of_run(Path(config.training.warm_start)))
        settings["training.warm_start"] = checkpoint.weights_sha256(trained.model)
    return settings


def by_training(trials: Iterable[Trial]) -> list[tuple[Trial, ...]]:
    """The trials grouped by training, in the order of their first ones: a training may have several evaluations."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.identity, []).append(trial)
    return [tuple(group) for group in groups.values()]

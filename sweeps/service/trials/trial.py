"""A trial: everything that a worker needs for one training and one evaluation of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mucon.configuration import DEFAULT_METHOD, Config
from mucon.decoding.config import DecodingConfig
from mucon.identity.fingerprint import Canonical
from mucon.method import TrainingSettings, training_of
from mucon.methods import method_named
from mucon.videos import ScoredPart, scored_part
from sweeps.service.trials.identity import earlier_settings, evaluation_identity, training_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One training and one evaluation of it.

    Attributes:
        identity: identity of the training, the name of the trial's directory.
        evaluation: identity of the evaluation.
        method: name of the method.
        config: the full configuration of the method, including the seed.
        differences: path -> value of the settings that differ from the defaults.
        split: name of the split.
        data_fingerprint: hash of the split's videos.
        store: absolute path of the store.
        part: the evaluated part of the split; a training leaves the validation part out.
        task: `segmentation` or `alignment`.
        earlier: identity under which earlier versions stored the training, which then depended on settings without
            effect and not on the precision.
        whole: identity of the training without an early stop.
        continues: identities of equal trainings that end earlier, the longest first; a worker goes on from one of them
            that is finished.
        earlier_evaluation: the same for the evaluation.
        literal: key of the settings as they are given; trials with another one may still share a training. Of these
            five, workers get `continues` alone.
    """

    identity: str
    evaluation: str
    config: Config
    differences: Mapping[str, Any]
    split: str
    data_fingerprint: str
    store: str
    part: ScoredPart = "test"
    task: str = "segmentation"
    method: str = DEFAULT_METHOD
    earlier: str = field(default="", compare=False)
    earlier_evaluation: str = field(default="", compare=False)
    whole: str = field(default="", compare=False)
    continues: tuple[str, ...] = field(default=(), compare=False)
    literal: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Identity of training and evaluation together, which identifies a cell of a table."""
        return f"{self.identity}-{self.evaluation}"

    @property
    def training(self) -> TrainingSettings:
        """The settings `training.*` of the configuration."""
        return training_of(self.config)

    @property
    def decoding_choices(self) -> dict[str, Any]:
        """Path -> value of the decoding settings that differ from the defaults."""
        return _decoding_choices(self.differences)

    @classmethod
    def of(
        cls,
        config: Config,
        *,
        split: str,
        data_fingerprint: str,
        store: str,
        task: str = "segmentation",
        method: str = DEFAULT_METHOD,
        part: ScoredPart = "test",
    ) -> Trial:
        """The trial of a configuration, including its seed, on a split.

        Raises:
            InputError: the model of `training.warm_start` is missing or damaged.
        """
        settings = TrialSettings.of(config, task=task, method=method, part=part)
        return settings.trial(config.seed, split=split, data_fingerprint=data_fingerprint, store=store)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for trial.json and for workers."""
        return {
            "identity": self.identity,
            "evaluation": self.evaluation,
            "method": self.method,
            "config": self.config.to_dict(),
            "differences": dict(self.differences),
            "split": self.split,
            "seed": self.config.seed,
            "data_fingerprint": self.data_fingerprint,
            "numerics": method_named(self.method).numerics,
            "store": self.store,
            "part": self.part,
            "task": self.task,
            **({"continues": list(self.continues)} if self.continues else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Trial:
        """The inverse of `to_dict`.

        Raises:
            InputError: an unknown method or part.
        """
        method = value.get("method", DEFAULT_METHOD)
        return cls(
            identity=value["identity"],
            evaluation=value["evaluation"],
            config=method_named(method).config.from_dict(value["config"]),
            differences=value["differences"],
            split=value["split"],
            data_fingerprint=value["data_fingerprint"],
            store=value["store"],
            part=scored_part(value["part"]),
            task=value.get("task", "segmentation"),  # absent in older trials
            method=method,
            continues=tuple(value.get("continues", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """What the trials of a row share: settings of which none depends on seed, split or data.

    Attributes:
        config: the full configuration; the seed is replaced.
        task: see `Trial.task`.
        part: see `Trial.part`.
        method: name of the method.
        differences: see `Trial.differences`.
        canonical: settings of the training's identity.
        whole: the same without an early stop.
        earlier: the same of earlier versions.
        given: the same without canonical forms.
        evaluation: see `Trial.evaluation`.
        earlier_evaluation: see `Trial.earlier_evaluation`.
    """

    config: Config
    task: str
    part: ScoredPart
    method: str
    differences: Mapping[str, Any]
    canonical: Canonical
    whole: Canonical
    earlier: Canonical
    given: Canonical
    evaluation: str
    earlier_evaluation: str

    @classmethod
    def of(cls, config: Config, *, task: str, method: str, part: ScoredPart = "test") -> TrialSettings:
        """The settings of a configuration.

        Raises:
            InputError: the model of `training.warm_start` is missing or damaged.
        """
        named = method_named(method)
        config = type(config).from_dict(config.to_dict())  # turns 1 into 1.0 for settings that are floats
        differences = {path: value for path, value in config.differences().items() if path != "seed"}
        given, settings = named.identifying(config), named.identifying(config.canonical())
        return cls(
            config=config,
            task=task,
            part=part,
            method=method,
            differences=differences,
            canonical=Canonical.of(settings),
            whole=Canonical.of({path: value for path, value in settings.items() if path != "training.stop_after"}),
            earlier=Canonical.of(earlier_settings(given)),
            given=Canonical.of(given),
            evaluation=evaluation_identity(_used_choices(named.decoding(config), task), part=part, task=task),
            earlier_evaluation=evaluation_identity(_decoding_choices(differences), part=part, task=task),
        )

    def trial(self, seed: int, *, split: str, data_fingerprint: str, store: str) -> Trial:
        """The trial with a seed on a split."""
        numerics = method_named(self.method).numerics
        identities = {
            settings: training_identity(
                settings,
                split=split,
                seed=seed,
                fingerprint=data_fingerprint,
                numerics=numerics,
                method=self.method,
            )
            for settings in {self.canonical, self.whole, self.earlier, self.given}
        }
        return Trial(
            identity=identities[self.canonical],
            evaluation=self.evaluation,
            earlier=identities[self.earlier],
            earlier_evaluation=self.earlier_evaluation,
            whole=identities[self.whole],
            literal=f"{identities[self.given]}-{self.earlier_evaluation}",
            config=self.config.override("seed", seed),
            differences=self.differences,
            split=split,
            data_fingerprint=data_fingerprint,
            store=store,
            part=self.part,
            task=self.task,
            method=self.method,
        )


def _used_choices(decoding: DecodingConfig | None, task: str) -> dict[str, Any]:
    """Path -> value of the decoding settings that affect the predictions of a task and differ from the defaults."""
    used, default = (asdict(one) if one else {} for one in (decoding and decoding.canonical(task), DecodingConfig()))
    return {f"decoding.{name}": value for name, value in used.items() if value != default[name]}


def _decoding_choices(differences: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in differences.items() if path.startswith("decoding.")}


def by_training(trials: Iterable[Trial]) -> list[tuple[Trial, ...]]:
    """Groups trials by training, in the order of each training's first trial."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.identity, []).append(trial)
    return [tuple(group) for group in groups.values()]

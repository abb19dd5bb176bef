"""Experiments as data: what is varied, what is shown, and the trials that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mucon
from mucon import checkpoint, recipes
from mucon.config import TrainConfig
from mucon.errors import InputError, nearest
from sweeps.service.spec.columns import MUCON_COLUMNS, Column, Variant
from sweeps.service.spec.figure import Figure
from sweeps.service.trials.identity import evaluation_identity, training_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A table: its rows, columns and what it is trained on.

    Attributes:
        name: a word; the sweep's folder and its run on the tracking server are called so.
        title: the table's caption.
        label_titles: heads of the label columns.
        variants: the rows.
        columns: the scores shown.
        base: the configuration on which the rows build, when recordings are named.
        demo_base: the same for the demo's recordings.
        seeds: how many, when it is not told; the demo takes `demo_seeds`.
        splits: the store's splits, when it is not told.
        default_row: name of the row with which the others are compared; None: the one whose settings are the base's,
            see `with_default_row`.
        figure: what is drawn of it; None: a bar for each row's first score.

    Raises:
        InputError: a row without a label for each title, two rows with the same labels, a default row that is none, or
            a figure of what the table does not have.
    """

    name: str
    title: str
    label_titles: tuple[str, ...]
    variants: tuple[Variant, ...]
    columns: tuple[Column, ...] = MUCON_COLUMNS
    base: Callable[[], TrainConfig] = recipes.breakfast
    demo_base: Callable[[], TrainConfig] = recipes.demo
    seeds: int = 5
    demo_seeds: int = 2
    splits: tuple[str, ...] = ("1",)
    default_row: str | None = None
    figure: Figure | None = None

    def __post_init__(self) -> None:
        titles = [column.title for column in self.columns]
        problems = [] if self.figure is None else list(self.figure.problems(self.label_titles, titles))
        seen: set[tuple[str, ...]] = set()
        for variant in self.variants:
            if len(variant.labels) != len(self.label_titles):
                problems.append(
                    f"a row has one label for each of {', '.join(self.label_titles)}, row {variant.name!r} of "
                    f"{self.name} has {len(variant.labels)}: label it"
                )
            if variant.labels in seen:
                problems.append(f"rows have distinct labels, {variant.name!r} of {self.name} stands twice: rename one")
            seen.add(variant.labels)
        if not self.variants:
            problems.append(f"an experiment has at least one row, {self.name} has none: add a variant")
        names = [variant.name for variant in self.variants]
        if self.default_row is not None and self.default_row not in names:
            problems.append(
                f"the default row is one of the rows, {self.name} has no {self.default_row!r}"
                f"{nearest(self.default_row, names)}: name one of {', '.join(map(repr, names))}"
            )
        if problems:
            raise InputError(problems)

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """Itself, so that one table and a collection of tables are run alike."""
        return (self,)

    def with_default_row(self, base: TrainConfig, settings: Mapping[str, object]) -> Experiment:
        """The same with its default row named: of the rows whose settings are the base's the one about `full`.

        Args:
            base: the configuration under the rows.
            settings: of the command line; they win over the rows'.
        """
        if self.default_row is not None:
            return self
        alone = base.with_values(dict(settings))
        equal = [row for row in self.variants if base.with_values({**row.settings, **settings}) == alone]
        of_full = [row for row in equal if row.prediction in (None, "full")]
        return replace(self, default_row=next((row.name for row in of_full + equal), None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Several tables run as one sweep: a trial that stands in more than one is trained once.

    Attributes:
        name: a word; the sweep's folder and its run on the tracking server are called so.
        title: what they have in common.
        experiments: the tables, each with its own base configuration.
        seeds: how many, when it is not told; the demo takes `demo_seeds`.
        splits: the store's splits, when it is not told.

    Raises:
        InputError: no table, or two of one name.
    """

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    seeds: int = 5
    demo_seeds: int = 2
    splits: tuple[str, ...] = ("1",)

    def __post_init__(self) -> None:
        names = [experiment.name for experiment in self.experiments]
        twice = sorted({name for name in names if names.count(name) > 1})
        problems = [f"tables of a collection have distinct names, {name!r} stands twice: rename one" for name in twice]
        if not names:
            problems.append(f"a collection has at least one table, {self.name} has none: add an experiment")
        if problems:
            raise InputError(problems)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A trial in its place in the table."""

    variant: Variant
    split: str
    seed: int
    identity: str
    evaluation: str

    @property
    def key(self) -> str:
        """The trial's `key`."""
        return f"{self.identity}-{self.evaluation}"

    def __str__(self) -> str:
        return f"{self.variant.name}, split {self.split}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepInfo:
    """What the tracking server is told of a sweep.

    Attributes:
        name: the experiment's name.
        title: its caption.
        command: the command line that was given.
        config: the base configuration with the command line's settings, and what is common to all trials; plain values.
    """

    name: str
    title: str
    command: str
    config: Mapping[str, Any]


def _decoding_choices(differences: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in differences.items() if path.startswith("decoding.")}


def _identifying(config: TrainConfig) -> dict[str, Any]:
    """The settings of an identity; a model that training starts from counts by its weights, wherever it lies."""
    settings = config.trained_differences()
    if config.training.warm_start is not None:
        trained = checkpoint.load(checkpoint.of_run(Path(config.training.warm_start)))
        settings["training.warm_start"] = checkpoint.weights_sha256(trained.model)
    return settings


def expand(
    experiment: Experiment,
    *,
    base: TrainConfig,
    settings: Mapping[str, object],
    seeds: Sequence[int],
    splits: Sequence[str],
    fingerprint: Callable[[str, TrainConfig], str],
    store: str,
) -> dict[Cell, Trial]:
    """Every row of an experiment on every split with every seed.

    Args:
        experiment: the table.
        base: the configuration under the rows.
        settings: of the command line; they win over the rows'.
        seeds: one trial each.
        splits: names.
        fingerprint: of a split's data for a configuration.
        store: absolute path of the store.

    Returns:
        Cell -> trial, seed by seed, so that a sweep that is stopped early has every row with few seeds rather than few
        rows with every seed.

    Raises:
        InputError: an unknown setting, a wrong value, or two rows that become one trial.
    """
    if "seed" in settings:
        raise InputError(f"a sweep gives each trial its seed, --set seed={settings['seed']} cannot: use --seeds")
    configs = [(variant, base.with_values({**variant.settings, **settings})) for variant in experiment.variants]
    made: dict[Cell, Trial] = {}
    for seed in seeds:
        for split in splits:
            for variant, config in configs:
                seeded = config.override("seed", seed)
                found = fingerprint(split, seeded)
                trial = Trial.of(seeded, split=split, data_fingerprint=found, store=store, task=variant.task)
                cell = Cell(
                    variant=variant, split=split, seed=seed, identity=trial.identity, evaluation=trial.evaluation
                )
                made[cell] = trial
    problems = list(_merged_rows(list(made), settings))
    if problems:
        raise InputError(problems)
    return made


def _merged_rows(made: Sequence[Cell], settings: Mapping[str, object]) -> Iterator[str]:
    first: dict[tuple[str, str | None], Variant] = {}
    told: set[tuple[str, str]] = set()
    for cell in made:
        other = first.setdefault((cell.key, cell.variant.prediction), cell.variant)
        if other is not cell.variant and (other.name, cell.variant.name) not in told:
            told.add((other.name, cell.variant.name))
            same = sorted(set(settings) & (set(other.settings) | set(cell.variant.settings)))
            because = f" with --set {' '.join(f'{path}={settings[path]}' for path in same)}" if same else ""
            yield (
                f"rows of a table are different trials, {other.name!r} and {cell.variant.name!r} become the same"
                f"{because}: leave out what makes them equal, or train that one row with `mucon train`"
            )

"""Experiments as data: what is varied, what is shown, and the trials that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mucon import recipes
from mucon.config import TrainConfig
from mucon.errors import InputError, nearest
from sweeps.service.spec.columns import MUCON_COLUMNS, Column, Variant
from sweeps.service.spec.figure import Figure


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

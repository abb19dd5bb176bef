"""Experiments as data: what is varied and what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mucon.configuration import DEFAULT_METHOD
from mucon.errors import InputError, Problem
from sweeps.service.spec.columns import MUCON_COLUMNS, Column, Variant
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.problems import unknown
from sweeps.service.spec.quoted import Quoted
from sweeps.service.spec.recipe import DEMO, WEAK
from sweeps.service.spec.texts import name_problems, text_problems

if TYPE_CHECKING:
    from mucon.configuration import Config
    from sweeps.service.spec.recipe import Base
    from sweeps.service.spec.seeds import SeedRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A table: rows, columns and training configuration.

    Attributes:
        name: identifier; names the sweep's folder and its run on the tracking server.
        title: caption of the table.
        label_titles: heads of the label columns.
        variants: the rows.
        columns: the scores shown.
        base: function without arguments that returns the configuration on which the rows build, if recordings are
            named.
        demo_base: the same for the demo recordings.
        seeds: default number of seeds.
        demo_seeds: default number of seeds for the demo recordings.
        seed_rule: default rule by which the results decide the seeds of each row; None: all rows have as many.
        splits: default splits of the store.
        default_row: name of the row with which the others are compared; None for the row that leaves the base
            unchanged, see `with_default_row`.
        figure: figure of the table; None for a bar per row.
        quoted: rows with numbers of papers; a sweep shows those of the data set that its command names.

    Raises:
        InputError: no row, a row without a label for each title, rows with equal labels, an unknown default row, a
            figure of something that the table does not contain, a name that no file can have, or a text that cannot be
            shown.
    """

    name: str
    title: str
    label_titles: tuple[str, ...]
    variants: tuple[Variant, ...]
    columns: tuple[Column, ...] = MUCON_COLUMNS
    base: Base = WEAK
    demo_base: Base = DEMO
    seeds: int = 5
    demo_seeds: int = 2
    seed_rule: SeedRule | None = None
    splits: tuple[str, ...] = ("1",)
    default_row: str | None = None
    figure: Figure | None = None
    quoted: tuple[Quoted, ...] = ()

    def __post_init__(self) -> None:
        titles = [column.title for column in self.columns]
        problems = [*name_problems("name", self.name), *text_problems("title", self.title)]
        problems += text_problems("columns", *self.label_titles, *titles)
        rows: tuple[Variant | Quoted, ...] = (*self.variants, *self.quoted)
        problems += text_problems("rows", *(label for row in rows for label in row.labels))
        problems += text_problems("quoted", *(text for row in self.quoted for text in (row.source, row.convention)))
        problems += [] if self.figure is None else self.figure.problems(self.label_titles, titles)
        seen: set[tuple[str, tuple[str, ...]]] = set()  # a method may be run and quoted
        for row in rows:
            if len(row.labels) != len(self.label_titles):
                expected = f"{len(self.label_titles)} labels ({', '.join(self.label_titles)})"
                message = f"row {row.name!r} of {self.name} has {len(row.labels)} labels, expected {expected}"
                problems.append(Problem(rule="shape", place="rows", value=row.name, message=message))
            key = row.data if isinstance(row, Quoted) else "", row.labels
            if key in seen:
                message = f"duplicate row {row.name!r} of {self.name}"
                problems.append(Problem(rule="duplicate", place="rows", value=row.name, message=message))
            seen.add(key)
        if not self.variants:
            problems.append(Problem(rule="missing", place="rows", message=f"{self.name} has no row"))
        names = [variant.name for variant in self.variants]
        if self.default_row is not None and self.default_row not in names:
            problems.append(unknown("default", "row", self.default_row, names))
        if problems:
            raise InputError(problems)

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiment alone, so that one table and a collection of tables have the same interface."""
        return (self,)

    def with_default_row(self, base: Config, settings: Mapping[str, object]) -> Experiment:
        """Returns a copy whose default row is named, if there is one.

        It is MuCon's row that leaves the base unchanged; if several do, the first one about the `full` prediction.

        Args:
            base: the configuration on which the rows build.
            settings: MuCon's settings of the command line; they take precedence over the rows'.
        """
        if self.default_row is not None:
            return self
        unchanged = base.with_values(dict(settings))
        rows = [row for row in self.variants if row.method == DEFAULT_METHOD]
        equal = [row for row in rows if base.with_values({**row.settings, **settings}) == unchanged]
        of_full = [row for row in equal if row.prediction in (None, "full")]
        return replace(self, default_row=next((row.name for row in of_full + equal), None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Several tables run as one sweep; a trial that several tables contain is trained once.

    Attributes:
        name: identifier; names the sweep's folder and its run on the tracking server.
        title: common title of the tables.
        experiments: the tables, each with its own base configuration.
        seeds: default number of seeds.
        demo_seeds: default number of seeds for the demo recordings.
        seed_rule: default rule by which the results decide the seeds of each row; None: all rows have as many.
        splits: default splits of the store.

    Raises:
        InputError: no table, tables with equal names, a name that no file can have, or a title that cannot be shown.
    """

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    seeds: int = 5
    demo_seeds: int = 2
    seed_rule: SeedRule | None = None
    splits: tuple[str, ...] = ("1",)

    def __post_init__(self) -> None:
        names = [experiment.name for experiment in self.experiments]
        files = [name.lower() for name in names]  # some file systems do not tell upper from lower case
        problems = [*name_problems("name", self.name), *text_problems("title", self.title)]
        problems += [
            Problem(rule="duplicate", place="tables", value=name, message=f"duplicate table {name!r} of {self.name}")
            for name in sorted({name for name in names if files.count(name.lower()) > 1})
        ]
        if not names:
            problems.append(Problem(rule="missing", place="tables", message=f"{self.name} has no table"))
        if problems:
            raise InputError(problems)

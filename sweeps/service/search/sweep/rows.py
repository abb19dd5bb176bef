"""The plan of a search: a row per point, a table per rung, and the trials of each training that the search asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mucon.configuration import DEFAULT_METHOD, Config, setting_text
from mucon.errors import InputError, Problem
from mucon.method import training_of
from mucon.videos import ScoredPart
from storage import open_store
from storage.remote.addresses import StorePlace
from sweeps.service.plan.background import rule_problem
from sweeps.service.plan.cells import Cell, expand, usable
from sweeps.service.plan.plan import Part, Plan, make_plan
from sweeps.service.plan.recordings import SplitData, fingerprints, split_facts
from sweeps.service.plan.stored import as_stored
from sweeps.service.search.points import Job, Point
from sweeps.service.spec.columns import MATCHING_SCORE, MOF, MUCON_COLUMNS, Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.search import Search, value_problems
from sweeps.service.text import digest, significant
from sweeps.service.trials.continuing import linked
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, TrialSettings

PART: ScoredPart = "validation"
INACTIVE = "–"
"""Label of a setting that has no effect in a point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all points of a search share.

    Attributes:
        store: feature store with the recordings.
        base: configuration on which the points build.
        settings: path -> value for all points; none of the space.
        splits: names, or `all` alone.
        results: the results folder.
        device: see `make_plan`.
    """

    store: StorePlace
    base: Config
    settings: Mapping[str, object]
    splits: Sequence[str]
    results: ResultsFolder
    device: str = "cpu"


def check_ground(search: Search, ground: Ground) -> None:
    """Checks the settings of a search that its file could not.

    Raises:
        InputError: a setting of all points that the search varies, or a value of the space that the configuration
            refuses.
    """
    problems = [
        Problem(
            rule="conflict",
            place=path,
            value=value,
            message="the search varies this setting",
            hint="leave it out of --set and --epochs, or take it out of the space",
        )
        for path, value in ground.settings.items()
        if path in search.space
    ]
    whole = ground.base.with_values({path: one for path, one in ground.settings.items() if path not in search.space})
    problems += [problem for path in search.space for problem in value_problems(search.space, path, whole)]
    if problems:
        raise InputError(problems)


class PointPlan:
    """The plan of a search, which grows by the trainings that the search asks for.

    Args:
        search: the search; where no scored video has lengths, the matching score takes the place of MoF.
        ground: what its points share.

    Attributes:
        search: the search as it is run.
        ground: what its points share.
        empty: the plan without a training: splits, store, results folder and warnings.

    Raises:
        InputError: wrong settings, recordings without the annotations that training or scoring needs, or splits of
            which one is scored on recordings of another one's test part.
        StoreError: no such store or split, a damaged store, or a training part that is too small for a validation part.
    """

    def __init__(self, search: Search, ground: Ground) -> None:
        check_ground(search, ground)
        self.ground = ground
        self._rows: dict[float | None, dict[int, Variant]] = {}
        self._cells: dict[float | None, dict[Cell, Trial]] = {}
        self._jobs: dict[Job, tuple[Cell, ...]] = {}
        self._default: int | None = None
        shape = search_table(search, [Variant(labels=("", *("" for _ in search.space)))])
        self.empty, _ = make_plan(
            shape,
            store=ground.store,
            base=lambda *_: ground.base,
            settings=ground.settings,
            seeds=(1,),
            splits=ground.splits,
            results=ground.results,
            device=ground.device,
            part=PART,
        )
        self.search = fitting(search, self.empty.splits)
        store = open_store(ground.store)
        self._background = store.manifest.background
        _check_splits({name: (store.split(name, "test"), data) for name, data in self.empty.splits.items()})
        self._fingerprint = fingerprints({name: split_facts(store, name, PART) for name in self.empty.splits})

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self.empty.splits)

    @property
    def folder(self) -> Path:
        """The sweep's own directory."""
        return self.empty.folder

    @property
    def plan(self) -> Plan:
        """The plan of all trainings that have been asked for; at least one."""
        return replace(self.empty, parts=tuple(self._part(rung) for rung in sorted(self._rows, key=_whole_first)))

    @property
    def trials(self) -> dict[str, Trial]:
        """The trials of the plan, by key."""
        return linked({trial.key: trial for cells in self._cells.values() for trial in cells.values()})

    @property
    def base(self) -> Config:
        """The configuration on which the points build, with the settings of all points."""
        return self.ground.base.with_values(self.ground.settings)

    @property
    def context(self) -> dict[str, object]:
        """Facts on which the scores of all points depend: recordings, part, and the settings that no point varies."""
        fixed = {path: one for path, one in self.base.differences().items() if path not in self.search.space}
        data = {name: split.fingerprint for name, split in self.empty.splits.items()}
        return {"part": PART, "data": data, "settings": digest(json.dumps(fixed, sort_keys=True))}

    def key(self, settings: Mapping[str, object]) -> str:
        """A text that is the same for points whose trainings and evaluations are the same."""
        try:
            config = usable(self.base.with_values(settings), self.ground.device)
        except InputError:
            return json.dumps(dict(settings), sort_keys=True)
        shared = TrialSettings.of(config, task="segmentation", method=DEFAULT_METHOD, part=PART)
        return shared.trial(1, split="", data_fingerprint="", store="").key

    def refusal(self, point: Point) -> str:
        """Why the configuration or the store does not allow the settings of a point together; empty if both do."""
        try:
            config = self.base.with_values(point.settings)
        except InputError as error:
            return error.line
        problem = rule_problem(DEFAULT_METHOD, config, self._background, PART)
        return "" if problem is None else str(problem)

    def add(self, job: Job) -> dict[Cell, Trial]:
        """The trials of a training, one per split; the plan contains them from now on.

        Raises:
            InputError: the directory of a trial is damaged, or contains a training in another precision.
        """
        row = point_row(self.search, job.point, self._epochs(job))
        if job not in self._jobs:
            stored = self.trials_of(row, job.seed)
            self._rows.setdefault(job.rung, {})[job.point.number] = row
            self._default = job.point.number if job.point.origin == "default" else self._default
            self._cells.setdefault(job.rung, {}).update(stored)
            self._jobs[job] = tuple(stored)
        whole = {self._cells[job.rung][cell].whole for cell in self._jobs[job]}
        stages = (trial for cells in self._cells.values() for trial in cells.values() if trial.whole in whole)
        trials = linked({trial.key: trial for trial in stages})
        return {cell: trials[cell.key] for cell in self._jobs[job]}

    def trials_of(self, row: Variant, seed: int) -> dict[Cell, Trial]:
        """The trials of a row with a seed, one per split, whether the plan contains them or not."""
        asked = expand(
            search_table(self.search, [row]),
            base=lambda _: self.ground.base,
            settings=lambda _: self.ground.settings,
            seeds=(seed,),
            splits=self.splits,
            fingerprint=self._fingerprint,
            n_training=lambda split: self.empty.splits[split].n_train,
            store=self.empty.store,
            device=self.ground.device,
            part=PART,
        )
        (stored,) = as_stored([asked], self.ground.results)
        return stored

    def _epochs(self, job: Job) -> int | None:
        """Number of epochs after which a training ends at its rung; None for a whole one."""
        if job.rung is None:
            return None
        config = self.base.with_values(job.point.settings)
        return max(1, round(job.rung * training_of(config).epochs))

    def _part(self, rung: float | None) -> Part:
        rows, cells = self._rows[rung], self._cells[rung]
        default = None if self._default is None else rows.get(self._default)
        return Part(
            experiment=search_table(self.search, [row for _, row in sorted(rows.items())], rung, default=default),
            cells=tuple(cells),
            pooling=self.empty.parts[0].pooling,
            settings={cell.variant.labels: trial.differences for cell, trial in cells.items()},
        )


def search_table(
    search: Search, rows: Iterable[Variant], rung: float | None = None, default: Variant | None = None
) -> Experiment:
    """The table of some points.

    Args:
        search: the search.
        rows: a row per point.
        rung: share of the training after which their trainings stop; None: whole trainings.
        default: the row of the base configuration.
    """
    shares = f" after {100 * rung:g} % of the training" if rung else ""
    return Experiment(
        name=search.name if rung is None else f"{search.name}_rung_{100 * rung:g}".replace(".", "_"),
        title=f"{search.title}{shares}",
        label_titles=("point", *label_titles(search.space)),
        variants=tuple(rows),
        columns=columns_of(search),
        default_row=default.name if default else None,
    )


def columns_of(search: Search) -> tuple[Column, ...]:
    """The objectives, what the constraints limit, and the columns of every table of MuCon."""
    columns: dict[tuple[str, str], Column] = {}
    for column in (*search.objectives, *(bound.column for bound in search.constraints), *MUCON_COLUMNS):
        columns.setdefault((column.prediction, column.metric), column)
    return tuple(columns.values())


def label_titles(space: Mapping[str, object]) -> tuple[str, ...]:
    """The settings of a space by their last names, or by their whole paths where two have the same.

    >>> label_titles({"loss.length": 0, "loss.frame": 0, "training.length": 0})
    ('loss.length', 'frame', 'training.length')
    """
    names = [path.rpartition(".")[2] for path in space]
    return tuple(path if names.count(name) > 1 else name for path, name in zip(space, names, strict=True))


def point_row(search: Search, point: Point, epochs: int | None = None) -> Variant:
    """The row of a point: its number and its settings, rounded; those without effect have none.

    Args:
        search: the search.
        point: the point.
        epochs: number of epochs after which its trainings end; None: they are whole.
    """
    labels = [label_of(point.settings[path]) if path in point.settings else INACTIVE for path in search.space]
    stop = {} if epochs is None else {"training.stop_after": epochs}
    return Variant(labels=(str(point.number), *labels), settings={**point.settings, **stop})


def label_of(value: object) -> str:
    """A setting in few characters.

    >>> label_of(0.0123456), label_of([1, 2]), label_of(True), label_of(8)
    ('0.0123', '1,2', 'true', '8')
    """
    return significant(value, 3) if isinstance(value, float) else setting_text(value)


def fitting(search: Search, splits: Mapping[str, SplitData]) -> Search:
    """The search with the matching score in place of MoF where no scored video has lengths."""
    if any(data.n_test_with_lengths != 0 for data in splits.values()) or MOF not in search.objectives:
        return search
    objectives = dict.fromkeys(MATCHING_SCORE if column == MOF else column for column in search.objectives)
    return replace(search, objectives=tuple(objectives))


def _check_splits(splits: Mapping[str, tuple[Sequence[str], SplitData]]) -> None:
    """Raises an error if a point would be scored on recordings of the test part, that of another split included."""
    problems = []
    for name, (_, data) in splits.items():
        seen = [other for other, (test, _) in splits.items() if set(test) & set(data.validation)]
        if seen:
            message = f"the validation part of split {name} has recordings of the test part of split {', '.join(seen)}"
            hint = "search on one split, or on splits that share their test part"
            problems.append(Problem(rule="conflict", place="splits", value=name, message=message, hint=hint))
    if problems:
        raise InputError(problems)


def _whole_first(rung: float | None) -> float:
    return -1.0 if rung is None else -rung

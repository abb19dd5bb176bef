"""The cells of a table: every row on every split with every seed."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mucon.configuration import DEFAULT_METHOD, Config, field_types
from mucon.device import planned_precision
from mucon.errors import InputError, Problem
from mucon.method import training_of
from mucon.methods import METHODS, method_named
from mucon.videos import ScoredPart
from sweeps.service.plan.teachers import SETTING as LABELS_FROM
from sweeps.service.plan.teachers import teachers, untrained_problem
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.problems import unknown
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.trial import Trial, TrialSettings

RowConfigs = Sequence[tuple[Variant, Config]]
"""The rows of an experiment with their configurations, before anything depends on the number of training videos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A trial at its position in the table."""

    variant: Variant
    split: str
    seed: int
    identity: str
    evaluation: str

    @property
    def key(self) -> str:
        """The key of the trial, see `Trial.key`."""
        return f"{self.identity}-{self.evaluation}"

    def __str__(self) -> str:
        return f"{self.variant.name}, split {self.split}, seed {self.seed}"


def split_mean(cells: Iterable[Cell], results: Mapping[str, CellResult], column: Column) -> float | None:
    """Mean over the splits of what a column shows of a training.

    Args:
        cells: the training on each split.
        results: states and scores by key.
        column: the score.

    Returns:
        The mean; None without a value on one of the splits.
    """
    values = [results[cell.key].value(*column.of(cell.variant)) for cell in cells]
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def settings_by_method(
    experiment: Experiment | Collection, settings: Mapping[str, object]
) -> Callable[[str], Mapping[str, object]]:
    """Returns the settings of the command line for each method of a sweep.

    A method gets the settings that it has, and those whose path begins with its name, as in
    `ms_tcn:training.epochs`, which take precedence; those of a method without a row here have no effect, so that the
    same settings fit a part of the rows. A setting that no method of the sweep has is kept for all of them, so that it
    is reported as unknown.

    Raises:
        InputError: the seed is among the settings, or the name of a method that does not exist.
    """
    methods = {DEFAULT_METHOD, *(row.method for table in experiment.experiments for row in table.variants)}
    own: dict[str, dict[str, object]] = {method: {} for method in METHODS}
    problems = []
    for given, value in settings.items():
        method, colon, path = given.rpartition(":")
        if path == "seed":
            message = "a sweep sets the seed of each trial"
            problems.append(Problem(rule="conflict", place=given, value=value, message=message, hint="use --seeds"))
        elif colon and method not in METHODS:
            problems.append(unknown(given, "method", method, list(METHODS)))
        elif colon:
            own[method][path] = value
    if problems:
        raise InputError(problems)
    shared = {path: value for path, value in settings.items() if ":" not in path}
    paths = {method: set(field_types(method_named(method).config)) for method in methods}
    nowhere = {path for path in shared if not any(path in known for known in paths.values())}

    def of_method(method: str) -> Mapping[str, object]:
        return {path: value for path, value in shared.items() if path in paths[method] | nowhere} | own[method]

    return of_method


def row_configs(
    experiment: Experiment, base: Callable[[str], Config], settings: Callable[[str], Mapping[str, object]]
) -> RowConfigs:
    """The rows of an experiment with their configurations, see `expand`.

    Raises:
        InputError: an unknown setting, or a wrong value.
    """
    return [
        (row, base(row.method).with_values({**row.settings, **settings(row.method)})) for row in experiment.variants
    ]


def usable(config: Config, device: str) -> Config:
    """The configuration in the precision that trainings on a device really use."""
    asked = training_of(config).precision
    precision = planned_precision(asked, device)
    return config if precision == asked else config.override("training.precision", precision)


def precision_problems(configs: Iterable[Config], device: str) -> list[Problem]:
    """The problem of configurations whose precision is not usable on a device."""
    if all(usable(config, device) == config for config in configs):
        return []
    message = f"{device} has no bfloat16 instructions; these trials are planned and trained in float32"
    return [Problem(rule="unsupported", place="training.precision", value="bfloat16", message=message)]


def expand(
    experiment: Experiment,
    *,
    base: Callable[[str], Config],
    settings: Callable[[str], Mapping[str, object]],
    seeds: Sequence[int],
    splits: Sequence[str],
    fingerprint: Callable[[str, Config, int], str],
    n_training: Callable[[str], int],
    store: str,
    trained: Callable[[Trial], str | None] = lambda _: None,
    device: str = "cpu",
    part: ScoredPart = "test",
) -> dict[Cell, Trial]:
    """Every row of an experiment on every split with every seed.

    Args:
        experiment: the table.
        base: returns the configuration on which the rows of a method build.
        settings: returns the settings of the command line for a method; they take precedence over the rows'.
        seeds: one trial each.
        splits: names.
        fingerprint: returns the fingerprint of a split's data for a configuration and a seed.
        n_training: returns the number of a split's training videos.
        store: absolute path of the store.
        trained: returns the run folder of a trial whose training has finished, None for another trial.
        device: see `mucon.device.planned_precision`.
        part: see `Trial.part`.

    Returns:
        Cell -> trial, seed by seed, so that an interrupted sweep has all rows with fewer seeds rather than fewer rows
        with all seeds.

    Raises:
        InputError: an unknown setting, a wrong value, rows that become the same trial, or a row that needs the
            predictions of another row that is not trained.
    """
    rows = row_configs(experiment, base, settings)
    teacher_of = teachers(experiment.name, rows)
    numbers = {split: n_training(split) for split in splits}

    @cache
    def shared_settings(row: int, n_videos: int, run: str | None) -> TrialSettings:
        variant, config = rows[row]
        config = config if run is None else config.override(LABELS_FROM, run)
        given = {*variant.settings, *settings(variant.method)}
        planned = method_named(variant.method).for_videos(usable(config, device), n_videos, given)
        return TrialSettings.of(planned, task=variant.task, method=variant.method, part=part)

    def trial_of(row: int, seed: int, split: str) -> Trial | None:
        """The trial of a row; None if it needs predictions that do not exist yet."""
        run = None
        if row in teacher_of:
            teacher = trial_of(teacher_of[row], seed, split)
            run = None if teacher is None else trained(teacher)
            if run is None:
                return None
        shared = shared_settings(row, numbers[split], run)
        return shared.trial(seed, split=split, data_fingerprint=fingerprint(split, shared.config, seed), store=store)

    trials: dict[Cell, Trial] = {}
    untrained: dict[int, list[tuple[str, int]]] = {}
    for seed, split, (row, (variant, _)) in itertools.product(seeds, splits, enumerate(rows)):
        trial = trial_of(row, seed, split)
        if trial is None:
            untrained.setdefault(row, []).append((split, seed))
            continue
        cell = Cell(variant=variant, split=split, seed=seed, identity=trial.identity, evaluation=trial.evaluation)
        trials[cell] = trial
    names = [variant.name for variant, _ in rows]
    problems = [
        untrained_problem(experiment.name, names[row], names[teacher_of[row]], where)
        for row, where in untrained.items()
    ]
    problems += _merged_rows(experiment.name, trials, settings)
    if problems:
        raise InputError(problems)
    return trials


def _merged_rows(
    table: str, trials: Mapping[Cell, Trial], settings: Callable[[str], Mapping[str, object]]
) -> Iterator[Problem]:
    """One problem per pair of rows with the same settings; rows that differ in settings without effect may share."""
    first: dict[tuple[str, str | None], Variant] = {}
    reported: set[tuple[str, str]] = set()
    for cell, trial in trials.items():
        other = first.setdefault((trial.literal, cell.variant.prediction), cell.variant)
        pair = (other.name, cell.variant.name)
        if other is cell.variant or pair in reported:
            continue
        reported.add(pair)
        given = settings(cell.variant.method)
        shared = sorted(set(given) & (set(other.settings) | set(cell.variant.settings)))
        because = f" with --set {' '.join(f'{path}={given[path]}' for path in shared)}" if shared else ""
        if not shared and "bfloat16" in [row.settings.get("training.precision") for row in (other, cell.variant)]:
            because = " on a device without bfloat16 instructions"
        message = f"rows {other.name!r} and {cell.variant.name!r} are the same trial{because}"
        hint = "leave the setting out, or select one of the rows with --rows" if shared else ""
        yield Problem(rule="duplicate", place=table, value=pair, message=message, hint=hint)

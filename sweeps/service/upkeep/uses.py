"""Who needs a trial: the sweeps that contain it, and the trials and sweeps that start from its weights."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem
from mucon.identity.fingerprint import DIGITS
from sweeps.service.plan import plan as plans
from sweeps.service.plan import sweep_folder
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TRIAL_SHAPE, read_versioned
from sweeps.service.trials.lease import Holder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep import trash

MODELS = ("training.warm_start", "training.labels_from")
"""The settings with folders of trained models."""
_TRIAL = re.compile(rf"(?:^|/)trials/([0-9a-f]{{{DIGITS}}})(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """Who needs the trials of a results folder.

    Attributes:
        sweeps: name of a sweep -> the identities of the trials that it has or had.
        starting_sweeps: identity of a trial -> the sweeps with rows that start from its weights.
        starting_trials: identity of a trial -> the trials that start from its weights.
        unreadable: name of a sweep whose plan and record both cannot be read -> why; its trials are not known.
        unrecorded: scratch directory of a merge under way, or of a sweep that has begun but is not recorded yet -> its
            process; its trials are not known.
    """

    sweeps: Mapping[str, frozenset[str]]
    starting_sweeps: Mapping[str, frozenset[str]]
    starting_trials: Mapping[str, frozenset[str]]
    unreadable: Mapping[str, str]
    unrecorded: Mapping[Path, Holder]

    def check(self, results: ResultsFolder) -> None:
        """Checks that the trials of every sweep are known, before some are removed.

        Raises:
            InputError: one problem per sweep whose files cannot be read, or that a process has begun but not recorded.
        """
        problems = [
            Problem(rule="damaged", place=str(results.sweep(name)), value=name, message=reason, hint="repair it first")
            for name, reason in self.unreadable.items()
        ] + [
            Problem(
                rule="busy",
                place=str(path),
                value=path.name,
                message=f"in use ({holder}), and which trials it needs is not known yet",
                hint="try again in a minute",
            )
            for path, holder in self.unrecorded.items()
        ]
        if problems:
            raise InputError(problems)

    def needed_by(self, identity: str, *, sweep: str = "", trials: Collection[str] = ()) -> str:
        """Who needs a trial, besides a sweep and some trials; empty if nobody does."""
        containing = {name for name, content in self.sweeps.items() if identity in content}
        names = (containing | self.starting_sweeps.get(identity, frozenset())) - {sweep}
        others = self.starting_trials.get(identity, frozenset()) - {identity, *trials}
        return ", ".join([*(f"sweep {name}" for name in sorted(names)), *(f"trial {one}" for one in sorted(others))])


def read_uses(results: ResultsFolder) -> Uses:
    """Reads the plans and records of all sweeps, and from which weights the trials start."""
    unrecorded = dict(_unrecorded(results))  # before the records are read
    sweeps, unreadable = {}, {}
    starting_sweeps, starting_trials = defaultdict(set), defaultdict(set)
    for name in sorted({folder.name for file in (plans.FILE, sweep_folder.FILE) for folder in results.sweeps(file)}):
        identities, models, problems = _of_sweep(results, name)
        sweeps[name] = frozenset(identities)
        for model in models:
            starting_sweeps[model].add(name)
        if len(problems) == 2:
            unreadable[name] = problems[0]
    for folder in results.trials():
        try:
            training = read_versioned(folder.trial_path, TRIAL_SHAPE)["config"].get("training")
        except InputError:  # damaged: it is made again before it starts from anything
            continue
        flat = {f"training.{name}": value for name, value in training.items()} if isinstance(training, dict) else {}
        for model in _models([flat]):
            starting_trials[model].add(folder.identity)
    return Uses(
        sweeps=sweeps,
        starting_sweeps={model: frozenset(names) for model, names in starting_sweeps.items()},
        starting_trials={model: frozenset(trials) for model, trials in starting_trials.items()},
        unreadable=unreadable,
        unrecorded=unrecorded,
    )


def _unrecorded(results: ResultsFolder) -> Iterator[tuple[Path, Holder]]:
    """The merge that is under way, and the sweeps that a process holds but has not recorded since."""
    for path in (trash.incoming(results), *sorted((results.path / "running").glob("*/"))):
        holder = lease.holder(path)
        if holder is None:
            continue
        try:
            record = sweep_folder.read_sweep(results.sweep(path.name)) if path.parent.name == "running" else None
        except InputError:
            record = None
        began = holder.expires - holder.duration
        if record is None or record.started is None or record.started < began:
            yield path, holder


def _of_sweep(results: ResultsFolder, name: str) -> tuple[set[str], set[str], list[str]]:
    """The trials of a sweep, those from whose weights its rows start, and which of its two files cannot be read."""
    identities: set[str] = set()
    values: list[Mapping[str, Any]] = []
    problems = []
    try:
        plan = plans.read_plan(results, name)
        identities |= set(plan.rows)
        settings_of_rows = [row.settings for part in plan.parts for row in part.experiment.variants]
        settings_of_rows += [settings for part in plan.parts for settings in part.settings.values()]
        values += settings_of_rows
    except InputError as error:
        problems.append(error.line)
    try:
        record = sweep_folder.read_sweep(results.sweep(name))
        if record is None:
            problems.append(f"{results.sweep(name)}: no {sweep_folder.FILE}")
        else:
            identities |= set(record.rows)
            settings = record.sweep.config.get("set")
            values += [settings] if isinstance(settings, dict) else []
    except InputError as error:
        problems.append(error.line)
    return identities, set(_models(values)), problems


def _models(values: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The identities of the trials inside of which the models of some settings are."""
    for path, value in itertools.chain.from_iterable(settings.items() for settings in values):
        if path.rpartition(":")[2] in MODELS and isinstance(value, str):
            found = _TRIAL.search(Path(value).as_posix())
            if found:
                yield found[1]

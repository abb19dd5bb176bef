"""The durable study of a search: suggestions and results, each written before it counts."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from mucon.errors import InputError, Problem
from storage.fencing import ALONE, Writer
from sweeps.service.search import journal_file, samplers
from sweeps.service.search.points import Measured, Origin
from sweeps.service.search.space import Settings, description, ordered, suggested_value, value_of
from sweeps.service.spec.search import Sampler, Search, active_paths
from sweeps.service.text import redacted
from sweeps.service.triage.causes import UnwritableError
from sweeps.service.trials.json_files import NUMBER, misfit

_SEARCH = "search"
"""Attribute of a study: the search that it belongs to."""
_METRIC_NAMES = "study:metric_names"
"""Optuna's own attribute, by which optuna-dashboard names the objectives."""
_DRAWING = 0
"""Identity of the only study in a memory, whose trials have their numbers as identities."""
_FREE = frozenset({"title", "trials"})
"""What may change between two runs of a search."""
_ENDED = {"order": int, "seed": int, "rung": (*NUMBER, type(None))}
_RESULT, _FAILED = {**_ENDED, "objectives": [NUMBER], "bounded": [NUMBER]}, {**_ENDED, "failed": str}


class Result(NamedTuple):
    """How a training ended.

    Attributes:
        seed: random seed.
        rung: share of the training after which it stopped; None: the whole training.
        measured: what it reached; None if it failed.
        reason: why it failed.
    """

    seed: int
    rung: float | None
    measured: Measured | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a trial of the study ends.

    Attributes:
        state: COMPLETE, PRUNED or FAIL.
        values: one per objective; None if it failed or was stopped without a value.
        violations: one per constraint; above 0 if it is broken.
        notes: further attributes for readers of the study.
    """

    state: TrialState
    values: tuple[float, ...] | None = None
    violations: tuple[float, ...] = ()
    notes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A trial of the study as it was read.

    Attributes:
        number: its place in the study.
        settings: configuration path -> value.
        origin: where it comes from.
        same_as: number of the earlier trial that it equals; None for a point.
        is_known: whether its scores come from another sweep.
        results: the order of each result among all of the study, and the result.
        ended: whether its end is recorded.
    """

    number: int
    settings: Settings
    origin: Origin
    same_as: int | None
    is_known: bool
    results: tuple[tuple[int, Result], ...]
    ended: bool


class Study:
    """A study in a file or a database, and its copy in memory on which suggestions are drawn.

    A suggestion is drawn in memory and then written whole: a kill leaves it either in the study or out of it. Methods
    raise `OSError` if something cannot be written; the search then has to be opened again.

    Args:
        place: the file, whose folder exists, or the URL of a database.
        search: the search.
        context: further facts on which the scores depend: base configuration, data, part.
        writer: the right to write the study.

    Raises:
        InputError: the study is damaged or of another search, or its database cannot be used.
        SupersededError: another process has taken over.
    """

    def __init__(
        self, place: Path | str, search: Search, context: Mapping[str, object] | None = None, writer: Writer = ALONE
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._place, self._search, self._paths = redacted(str(place)), search, ordered(search.space)
        self._database = None if isinstance(place, Path) else self._place
        self._writer = writer
        self._storage = journal_file.open_journal(place, writer) if isinstance(place, Path) else _connected(place)
        self._directions = [
            StudyDirection.MAXIMIZE if one.higher_is_better else StudyDirection.MINIMIZE for one in search.objectives
        ]
        with self._writing():
            self._id = self._opened(
                {**description(search, search.trials), "context": json.loads(json.dumps(context or {}))}
            )
        self._memory: BaseStorage = InMemoryStorage()
        self._drawing = optuna.create_study(storage=self._memory, directions=self._directions)
        self._drawn: int | None = None
        self._ids: list[int] = []
        with self._writing():
            self.recorded = tuple(self._copied())

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Confirms the right to write into a database, and turns its errors into one that ends the run; see causes."""
        if self._database is None:  # the file does both itself
            yield
            return
        self._writer.confirm()
        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as error:
            said = str(error.__cause__ or error).splitlines()[0]
            raise UnwritableError(f"the study in {self._database} cannot be written ({redacted(said)})") from error

    def _opened(self, described: dict[str, Any]) -> int:
        """The identity of the study in its storage; the study is created if it is missing."""
        kept = {name: value for name, value in described.items() if name not in _FREE}
        try:
            identity: int = self._storage.get_study_id_from_name(self._search.name)
        except KeyError:
            identity = self._storage.create_new_study(self._directions, self._search.name)
        earlier = self._storage.get_study_user_attrs(identity).get(_SEARCH)
        if earlier is None and not self._storage.get_all_trials(identity, deepcopy=False):
            names = [one.title for one in self._search.objectives]
            self._storage.set_study_system_attr(identity, _METRIC_NAMES, names)
            self._storage.set_study_user_attr(identity, _SEARCH, kept)
            return identity
        earlier = earlier if isinstance(earlier, dict) else {}
        if differing := sorted(name for name in {*kept, *earlier} if kept.get(name) != earlier.get(name)):
            message = f"this study is of a search with another {', another '.join(differing)}"
            hint = "give the search another name, or restore its settings"
            raise InputError(Problem(rule="conflict", place=self._place, value=differing, message=message, hint=hint))
        return identity

    def _copied(self) -> Iterator[Recorded]:
        """Copies what is stored to memory, and yields it."""
        for key, value in self._storage.get_study_system_attrs(self._id).items():
            self._memory.set_study_system_attr(_DRAWING, key, value)
        for trial in self._storage.get_all_trials(self._id, deepcopy=False):
            try:
                recorded = self._recorded(trial)
            except (KeyError, ValueError, TypeError) as error:
                raise self.damaged(trial.number, f"{type(error).__name__}: {error}") from None
            self._ids.append(trial._trial_id)
            self._memory.create_new_trial(_DRAWING, _for_sampling(trial))
            yield recorded

    def damaged(self, number: int, reason: str) -> InputError:
        """The error for a trial that no search would have written so."""
        message = f"trial {number} was not written by this search ({reason})"
        hint = journal_file.HINT if "://" not in self._place else ""
        return InputError(Problem(rule="damaged", place=self._place, value=number, message=message, hint=hint))

    def _recorded(self, trial: FrozenTrial) -> Recorded:
        notes, space = trial.user_attrs, self._search.space
        setting = suggested_value if notes["origin"] == "suggested" else value_of
        results = [value for name, value in notes.items() if name.startswith("seed ")]
        sizes = (len(self._search.objectives), len(self._search.constraints))
        return Recorded(
            number=trial.number,
            settings=notes.get("settings") or {path: setting(space[path], one) for path, one in trial.params.items()},
            origin=notes["origin"],
            same_as=notes.get("same as"),
            is_known="source" in notes,
            results=tuple((one["order"], _result(one, sizes)) for one in results),
            ended=trial.state.is_finished(),
        )

    @property
    def next_number(self) -> int:
        """Number of the next trial."""
        return len(self._ids)

    def draw(self, name: Sampler) -> Settings:
        """A suggestion for the next trial, in memory only until `add` writes it."""
        assert self._drawn is None, "the last suggestion was not added"
        self._drawn = len(self._ids)
        self._drawing.sampler = samplers.sampler(name, self._search.space, self._search.sampler_seed, self._drawn)
        trial = self._drawing.ask()
        settings: Settings = {}
        for path in self._paths:
            if path in active_paths(self._search.space, settings):
                dimension = self._search.space[path]
                settings[path] = suggested_value(dimension, samplers.drawn(trial, path, dimension))
        return settings

    def add(
        self,
        settings: Settings,
        origin: Origin,
        *,
        same_as: int | None = None,
        outside: bool = False,
        source: str | None = None,
        results: Sequence[Result] = (),
        ending: Ending | None = None,
    ) -> int:
        """Writes a trial: the last suggestion, or one that no sampler has drawn.

        Args:
            settings: configuration path -> value.
            origin: where it comes from.
            same_as: number of the earlier trial that it equals.
            outside: whether the settings lie outside of the space; no sampler sees the trial.
            source: name under which another sweep has its scores.
            results: finished trainings of the other sweep.
            ending: how it ended; None if it is to be trained.

        Returns:
            Its number.
        """
        number, drawn = len(self._ids), self._drawn
        space = {} if outside else {path: self._search.space[path] for path in settings}
        params = {path: samplers.drawn_for(one, settings[path]) for path, one in space.items()}
        suggestion = None if drawn is None else self._memory.get_trial(drawn)
        trial = create_trial(
            state=ending.state if ending else TrialState.RUNNING,
            values=None if ending is None or ending.values is None else list(ending.values),
            params=suggestion.params if suggestion else params,
            distributions={path: samplers.distribution(one) for path, one in space.items()},
            system_attrs=dict(suggestion.system_attrs) if suggestion else {},
            user_attrs={
                "origin": origin,
                **({} if same_as is None else {"same as": same_as}),
                **({"settings": settings} if outside else {}),
                **({} if source is None else {"source": source}),
                **{_name(result): _attribute(order, result) for order, result in enumerate(results)},
                **(ending.notes if ending else {}),
            },
            constraints=_constraints(ending) if ending else None,
        )
        with self._writing():
            self._keep_generations()
            self._ids.append(self._storage.create_new_trial(self._id, trial))
            written = self._storage.get_trial_number_from_id(self._ids[-1])
        if written != number:
            message = "another program has added trials to this study"
            raise InputError(Problem(rule="conflict", place=self._place, value=number, message=message))
        if drawn is None:
            self._memory.create_new_trial(_DRAWING, _for_sampling(trial))
        elif ending:
            self._write_ending(self._memory, number, _as_seen(ending))
        self._drawn = None
        return number

    def _keep_generations(self) -> None:
        """Writes what the sampler has chosen for good, as the parents of a generation, before the trial from them."""
        kept = self._storage.get_study_system_attrs(self._id)
        for key, value in self._memory.get_study_system_attrs(_DRAWING).items():
            if key not in kept:
                self._storage.set_study_system_attr(self._id, key, value)

    def record(self, number: int, order: int, result: Result, shown: tuple[int, float] | None) -> None:
        """Writes how a training of a trial ended.

        Args:
            number: number of the trial.
            order: place among all results of the study.
            result: how it ended.
            shown: step and value of the trial's curve, which the sampler sees if the trial is stopped.
        """
        with self._writing():
            if shown:
                self._storage.set_trial_intermediate_value(self._ids[number], *shown)
                if self._is_open(number):
                    self._memory.set_trial_intermediate_value(number, *shown)
            self._storage.set_trial_user_attr(self._ids[number], _name(result), _attribute(order, result))

    def end(self, number: int, ending: Ending) -> None:
        """Ends a trial."""
        with self._writing():
            for name, note in ending.notes.items():
                self._storage.set_trial_user_attr(self._ids[number], name, note)
            self._write_ending(self._storage, self._ids[number], ending)
        if self._is_open(number):
            self._write_ending(self._memory, number, _as_seen(ending))

    def _is_open(self, number: int) -> bool:
        """Whether a trial runs for the samplers; one outside of the space never does."""
        return not self._memory.get_trial(number).state.is_finished()

    def _write_ending(self, storage: BaseStorage, identity: int, ending: Ending) -> None:
        for name, violation in _constraints(ending).items():
            storage.set_trial_system_attr(identity, f"constraints:{name}", violation)
        storage.set_trial_state_values(identity, ending.state, ending.values)


def _connected(url: str) -> BaseStorage:
    """The database at an address; one that is started again in the middle is connected to again."""
    try:
        return optuna.storages.RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    except (ImportError, RuntimeError, SQLAlchemyError, StorageInternalError) as error:  # RuntimeError: of MLflow, say
        message = f"this database cannot be used ({redacted(str(error).splitlines()[0])})"
        hint = (
            "give a URL like postgresql+psycopg2://USER@HOST/NAME of a database of its own, or leave it out for a file"
        )
        problem = Problem(rule="unreachable", place=redacted(url), value=redacted(url), message=message, hint=hint)
        raise InputError(problem) from None


def _for_sampling(trial: FrozenTrial) -> FrozenTrial:
    """A trial as samplers see it.

    One outside of the space is a failed one, which they pass over. One that failed inside is a stopped one, which is
    worse than all complete ones: otherwise they would suggest its like again and again.
    """
    if "settings" in trial.user_attrs:
        return create_trial(state=TrialState.FAIL)
    if trial.state != TrialState.FAIL:
        return trial
    return create_trial(
        state=TrialState.PRUNED,
        params=trial.params,
        distributions=trial.distributions,
        system_attrs=trial.system_attrs,
        intermediate_values=trial.intermediate_values,
    )


def _as_seen(ending: Ending) -> Ending:
    """How a trial ends for samplers, see `_for_sampling`."""
    return replace(ending, state=TrialState.PRUNED) if ending.state == TrialState.FAIL else ending


def _constraints(ending: Ending) -> dict[str, float]:
    return {str(i): violation for i, violation in enumerate(ending.violations)}


def _name(result: Result) -> str:
    return f"seed {result.seed}" + ("" if result.rung is None else f" at {result.rung:g}")


def _attribute(order: int, result: Result) -> dict[str, object]:
    measured = result.measured._asdict() if result.measured else {"failed": result.reason}
    return {"order": order, "seed": result.seed, "rung": result.rung, **measured}


def _result(attribute: Any, sizes: tuple[int, int]) -> Result:
    """The result in an attribute.

    Raises:
        ValueError: it has another shape, another number of scores, or a score that is no number.
    """
    failed = isinstance(attribute, dict) and "failed" in attribute
    if wrong := misfit(attribute, _FAILED if failed else _RESULT):
        raise ValueError(wrong)
    if failed:
        return Result(attribute["seed"], attribute["rung"], None, attribute["failed"])
    measured = Measured(tuple(attribute["objectives"]), tuple(attribute["bounded"]))
    if tuple(map(len, measured)) != sizes or not all(math.isfinite(one) for values in measured for one in values):
        raise ValueError("scores of another search")
    return Result(attribute["seed"], attribute["rung"], measured)

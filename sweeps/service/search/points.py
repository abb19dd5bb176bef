"""The points of a search and what is known of them, as plain values and as a file; needs no optuna."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mucon.errors import InputError, Problem
from storage.fencing import ALONE, Writer
from sweeps.service.search.contradictions import contradiction
from sweeps.service.text import redacted
from sweeps.service.trials.json_files import ANY_KEY, NUMBER, damaged, misfit, read_json, write_json

FINAL = "_final"
Origin = Literal["default", "warm start", "suggested"]
State = Literal["running", "complete", "stopped", "failed", "infeasible"]
FILE = "search.json"
STUDY = "study.journal"
"""Name of the file of a study, beside `FILE`; `optuna-dashboard` opens it."""
STORAGE_FILE = "study.json"
"""Name of the file with the address of the database of a study, if it is in one."""
FORMAT_VERSION = 1
STORAGE_HINT = "write the address of the database into it, without its password"
HINT = "run the search again; no trial is lost"


def final_name(name: str) -> str:
    """The name of the sweep of a search's last step."""
    return f"{name}{FINAL}"


@dataclass(frozen=True, slots=True)
class Point:
    """A configuration that a search tries.

    Attributes:
        number: its place in the study, from 0; suggestions that equal an earlier point have numbers but are no points.
        settings: configuration path -> value of the dimensions of the space that have an effect.
        origin: `default` for the base configuration, `warm start` if its scores come from another sweep, else
            `suggested`.
    """

    number: int
    settings: Mapping[str, object] = field(hash=False)
    origin: Origin = "suggested"


class Job(NamedTuple):
    """A training that a search needs.

    Attributes:
        point: the configuration.
        seed: random seed, from 1.
        rung: share of the training after which it stops; None: the whole training.
    """

    point: Point
    seed: int
    rung: float | None = None


class Measured(NamedTuple):
    """What a training reached: means over the splits, each in its metric's own unit.

    Attributes:
        objectives: one value per objective of the search.
        bounded: one value per constraint of the search.
    """

    objectives: tuple[float, ...]
    bounded: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRecord:
    """What is known of a point.

    Attributes:
        point: the configuration.
        state: `running` if a training of it is still to come; `stopped` at a rung; `failed` if one of its trainings
            failed or diverged; `infeasible` if it breaks a constraint; else `complete`.
        scores: seed -> what the whole training reached.
        rungs: share of the training -> what seed 1 reached there.
        violations: by how much the mean exceeds the limit of each constraint, at most 0 if it is kept; empty before
            the first whole training.
        reason: why it failed; empty if it did not.
    """

    point: Point
    state: State
    scores: Mapping[int, Measured] = field(default_factory=dict)
    rungs: Mapping[float, Measured] = field(default_factory=dict)
    violations: tuple[float, ...] = ()
    reason: str = ""

    @property
    def n(self) -> int:
        """Number of seeds whose whole training is finished."""
        return len(self.scores)

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean over the seeds, per objective; empty without a finished seed."""
        return tuple(map(statistics.fmean, self._by_objective()))

    @property
    def std(self) -> tuple[float, ...]:
        """Deviation over the seeds, per objective; NaN with one seed."""
        return tuple(statistics.stdev(one) if len(one) > 1 else math.nan for one in self._by_objective())

    @property
    def rung(self) -> float | None:
        """The last rung that it reached; None without rungs."""
        return max(self.rungs, default=None)

    def _by_objective(self) -> list[tuple[float, ...]]:
        return list(zip(*(score.objectives for score in self.scores.values()), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHistory:
    """A search and its points.

    Attributes:
        search: description of the search: `name`, `title`, `sampler`, `sampler_seed`, `trials`, `seeds`, `rungs`,
            `splits`, `space` (path -> values, with its `kind`), `objectives` and `constraints` (each with `metric`,
            `prediction`, `title`, `unit`, `higher_is_better`).
        records: the points in the order of their numbers.
        importance: per objective, configuration path -> share of the variation of the scores; an empty mapping where
            there are too few points.
        best: numbers of the points by their score in the first objective, the best first; only points that keep the
            constraints and have a whole training.
        front: numbers of the points that no other one exceeds in all objectives, in the order of the points.
        duplicates: number of suggestions that equalled an earlier point.
        exhausted: whether the space has no further point.
        fresh: of the points that were trained again at the end, number -> seed -> the first objective on the test
            part; empty before.
    """

    search: Mapping[str, Any]
    records: tuple[PointRecord, ...] = ()
    importance: tuple[Mapping[str, float], ...] = ()
    best: tuple[int, ...] = ()
    front: tuple[int, ...] = ()
    duplicates: int = 0
    exhausted: bool = False
    fresh: Mapping[int, Mapping[int, float]] = field(default_factory=dict)

    @property
    def default(self) -> PointRecord | None:
        """The base configuration; None before it is planned."""
        return next((record for record in self.records if record.point.origin == "default"), None)

    @property
    def n_tried(self) -> int:
        """Number of the points that count for `trials`: those of a warm start do not."""
        return sum(record.point.origin != "warm start" for record in self.records)

    @property
    def is_over(self) -> bool:
        """Whether all points have been tried; the last step may still be missing."""
        is_whole = self.exhausted or self.n_tried >= self.search["trials"]
        return is_whole and all(record.state != "running" for record in self.records)

    @property
    def ranked(self) -> tuple[int, ...]:
        """Numbers of the points in `best`; of several objectives, those on the front first."""
        several = len(self.search["objectives"]) > 1
        return tuple(sorted(self.best, key=lambda number: several and number not in self.front))

    def record(self, number: int) -> PointRecord:
        """The point with a number.

        Raises:
            KeyError: there is none.
        """
        found = next((record for record in self.records if record.point.number == number), None)
        if found is None:
            raise KeyError(number)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in the file."""
        return {
            "format_version": FORMAT_VERSION,
            "search": dict(self.search),
            "points": [_to_dict(record) for record in self.records],
            "importance": [dict(one) for one in self.importance],
            "best": list(self.best),
            "front": list(self.front),
            "duplicates": self.duplicates,
            "exhausted": self.exhausted,
            "fresh": {str(number): {str(seed): one for seed, one in by.items()} for number, by in self.fresh.items()},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SearchHistory:
        """The inverse of `to_dict`.

        Raises:
            ValueError: the values have another shape or contradict each other; the message names the place.
        """
        if wrong := misfit(dict(value), SHAPE) or contradiction(value):
            raise ValueError(wrong)
        return cls(
            search=value["search"],
            records=tuple(_from_dict(one, f"points.{i}") for i, one in enumerate(value["points"])),
            importance=tuple(value["importance"]),
            best=tuple(value["best"]),
            front=tuple(value["front"]),
            duplicates=value["duplicates"],
            exhausted=value["exhausted"],
            fresh={int(number): {int(seed): one for seed, one in by.items()} for number, by in value["fresh"].items()},
        )


_MEASURED = {"objectives": [NUMBER], "bounded": [NUMBER]}
_POINT = {
    **{"number": int, "settings": {}, "origin": str, "state": str, "reason": str},
    **{"scores": {ANY_KEY: _MEASURED}, "rungs": {ANY_KEY: _MEASURED}, "violations": [NUMBER]},
}
_COLUMN = {"metric": str, "prediction": str, "title": str, "unit": str, "higher_is_better": bool}
_SEARCH = {
    **{"name": str, "title": str, "sampler": str, "sampler_seed": int, "trials": int, "seeds": int, "rungs": [NUMBER]},
    **{"splits": [str], "space": {ANY_KEY: {"kind": str}}, "objectives": [_COLUMN], "constraints": [_COLUMN]},
}
SHAPE = {
    **{"format_version": int, "search": _SEARCH, "points": [_POINT], "importance": [{ANY_KEY: NUMBER}]},
    **{"best": [int], "front": [int], "duplicates": int, "exhausted": bool, "fresh": {ANY_KEY: {ANY_KEY: NUMBER}}},
}
_ORIGINS: Mapping[str, Origin] = {"default": "default", "warm start": "warm start", "suggested": "suggested"}
_STATES: Mapping[str, State] = {
    **{"running": "running", "complete": "complete", "stopped": "stopped", "failed": "failed"},
    "infeasible": "infeasible",
}


def _to_dict(record: PointRecord) -> dict[str, Any]:
    return {
        "number": record.point.number,
        "settings": dict(record.point.settings),
        "origin": record.point.origin,
        "state": record.state,
        "scores": {str(seed): _measured_to_dict(one) for seed, one in record.scores.items()},
        "rungs": {repr(share): _measured_to_dict(one) for share, one in record.rungs.items()},
        "violations": list(record.violations),
        "reason": record.reason,
    }


def _measured_to_dict(measured: Measured) -> dict[str, Any]:
    return {name: list(values) for name, values in measured._asdict().items()}


def _from_dict(value: Mapping[str, Any], place: str) -> PointRecord:
    for name, known in (("origin", _ORIGINS), ("state", _STATES)):
        if value[name] not in known:
            raise ValueError(f"{place}.{name}: expected {', '.join(known)}, got {value[name]!r}")
    try:
        scores = {int(seed): one for seed, one in value["scores"].items()}
        rungs = {float(share): one for share, one in value["rungs"].items()}
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return PointRecord(
        point=Point(value["number"], value["settings"], _ORIGINS[value["origin"]]),
        state=_STATES[value["state"]],
        scores={seed: Measured(tuple(one["objectives"]), tuple(one["bounded"])) for seed, one in scores.items()},
        rungs={share: Measured(tuple(one["objectives"]), tuple(one["bounded"])) for share, one in rungs.items()},
        violations=tuple(value["violations"]),
        reason=value["reason"],
    )


def recorded_storage(folder: Path) -> str:
    """The address of the database with the study of a search, without a password; empty for one in a file.

    Raises:
        InputError: its record is damaged.
    """
    path = folder / STORAGE_FILE
    return str(read_json(path, hint=STORAGE_HINT, shape={"storage": str})["storage"]) if path.exists() else ""


def study_place(folder: Path, url: str | None, writer: Writer = ALONE) -> Path | str:
    """Where the study of a search is: in a database, which is recorded, or in a file of its folder.

    Args:
        folder: directory of the search.
        url: address of the database; None: the file.
        writer: writes the record.

    Raises:
        InputError: an earlier run of the search had its study elsewhere.
    """
    earlier = recorded_storage(folder) or (str(folder / STUDY) if (folder / STUDY).exists() else "")
    given = str(folder / STUDY) if url is None else redacted(url)
    if earlier and earlier != given:
        message = f"the study of this search is {earlier}"
        hint = "name the same place, or give the search another name"
        raise InputError(Problem(rule="conflict", place="--study-storage", value=given, message=message, hint=hint))
    if url is None:
        return folder / STUDY
    if not earlier:
        write_json(folder / STORAGE_FILE, {"storage": given}, writer)
    return url


def write_history(folder: Path, history: SearchHistory, writer: Writer = ALONE) -> None:
    """Writes a search into its sweep's folder, atomically."""
    write_json(folder / FILE, history.to_dict(), writer)


def read_history(folder: Path) -> SearchHistory:
    """The search that `write_history` wrote.

    Raises:
        InputError: the file is missing, damaged or of another format version.
    """
    value = read_json(folder / FILE, versions=(FORMAT_VERSION,), hint=HINT, shape=SHAPE)
    try:
        return SearchHistory.from_dict(value)
    except ValueError as error:
        raise damaged(folder / FILE, str(error), HINT) from None

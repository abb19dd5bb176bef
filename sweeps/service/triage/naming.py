"""Finds the trial that a text on a command line names, and the cells of sweeps that show it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem, nearest, some
from mucon.methods import method_named
from mucon.videos import ScoredPart
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import FILE, read_plan
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

SHORTEST_PREFIX = 4
"""Characters of an identity that name its trial, if no other identity begins with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cell of a sweep that has run.

    Attributes:
        sweep: name of the sweep.
        table: name of the cell's table.
        cell: the cell.
        settings: path -> value of what differs from the method's defaults, without the seed; None in plans of earlier
            versions.
        store: absolute path of the sweep's store.
        fingerprint: fingerprint of the split's videos, without labelled training videos.
        part: the part of the split that is scored.
    """

    sweep: str
    table: str
    cell: Cell
    settings: Mapping[str, Any] | None
    store: str
    fingerprint: str
    part: ScoredPart = "test"

    def trial(self, fingerprint: str) -> Trial | None:
        """The trial that the cell asks for, on recordings with a fingerprint; None in plans of earlier versions.

        Raises:
            InputError: this version of the program has no such method or setting, or a model to start from is missing.
        """
        if self.settings is None:
            return None
        method, cell = self.cell.variant.method, self.cell
        return Trial.of(
            method_named(method).config.from_dict({**self.settings, "seed": cell.seed}),
            split=cell.split,
            data_fingerprint=fingerprint,
            store=self.store,
            task=cell.variant.task,
            method=method,
            part=self.part,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A trial that is named on a command line.

    Attributes:
        reading: its directory, which need not exist.
        places: the cells that show it, in the order of sweeps and tables; empty if no plan contains it.
    """

    reading: TrialReading
    places: tuple[Place, ...]

    @property
    def identity(self) -> str:
        """Identity of the training."""
        return self.reading.folder.identity

    @property
    def title(self) -> str:
        """Row, split and seed of its first cell, or the identity."""
        return str(self.places[0].cell) if self.places else self.identity


def find(results: ResultsFolder, text: str, sweep: str | None = None) -> Named:
    """The trial with an identity, with its first characters, in a directory, or at `ROW, split SPLIT, seed SEED`.

    Args:
        results: the results folder.
        text: names the trial; `TABLE: ROW, ...` and `ROW/SPLIT/SEED` name a cell, too.
        sweep: name of the only sweep whose cells count; None: all sweeps of the folder.

    Raises:
        InputError: no trial or several trials have that name, or there is no such sweep.
    """
    places = list(places_of(results, sweep))
    here = _directory(text)
    if here is not None:
        return Named(reading=TrialReading(here), places=_of(places, here.identity))
    planned = dict.fromkeys(place.cell.identity for place in places)
    recorded = {} if sweep else dict.fromkeys(folder.identity for folder in results.trials())
    known = list(planned | recorded)
    found = [identity for identity in known if identity == text]
    if not found and re.fullmatch(rf"[0-9a-f]{{{SHORTEST_PREFIX},}}", text):
        found = [identity for identity in known if identity.startswith(text)]
    if not found:
        wanted = _squeezed(text)
        found = list(dict.fromkeys(place.cell.identity for place in places if wanted in _names(place)))
    if len(found) == 1:
        return Named(reading=results.reading(found[0]), places=_of(places, found[0]))
    raise InputError(_not_one(results, text, found, [*known, *(str(place.cell) for place in places)]))


def _not_one(results: ResultsFolder, text: str, found: list[str], names: list[str]) -> Problem:
    """The problem of a text that names no trial, or several."""
    if found:
        message, hint = f"{text!r} names {len(found)} trials: {some(found)}", "pass one of these identities"
        return Problem(rule="duplicate", place=str(results.path), value=text, message=message, hint=hint)
    return Problem(
        rule="unknown",
        place=str(results.path),
        value=text,
        message=f"no trial {text!r}{nearest(text, names)}",
        hint="pass an identity, its first characters, or ROW/SPLIT/SEED, as `mucon-sweeps status NAME` lists them",
    )


def _directory(text: str) -> TrialFolder | None:
    """The trial's directory that a path names, or `run` in it."""
    for path in (Path(text), Path(text).parent):
        if os.path.exists(TrialFolder(path).trial_path):  # noqa: PTH110  # False for a name that is too long
            return TrialFolder(path.absolute())
    return None


def places_of(results: ResultsFolder, sweep: str | None = None) -> Iterator[Place]:
    """The cells of the sweeps whose plans can be read; with a name, those of one sweep.

    Raises:
        InputError: there is no such sweep, or its plan is damaged.
    """
    names = [folder.name for folder in results.sweeps(FILE)] if sweep is None else [sweep]
    for name in names:
        try:
            plan = read_plan(results, name)
        except InputError:  # a damaged plan hides its own cells only
            if sweep is not None:
                raise
            continue
        for part in plan.parts:
            for cell in part.cells:
                yield Place(
                    sweep=name,
                    table=part.experiment.name,
                    cell=cell,
                    settings=part.settings_of(cell),
                    store=plan.store,
                    fingerprint=plan.splits[cell.split].fingerprint if cell.split in plan.splits else "",
                    part=plan.part,
                )


def _of(places: list[Place], identity: str) -> tuple[Place, ...]:
    return tuple(place for place in places if place.cell.identity == identity)


def _names(place: Place) -> set[str]:
    """The texts that name a cell."""
    cell = place.cell
    names = (str(cell), f"{cell.variant.name}/{cell.split}/{cell.seed}")
    return {_squeezed(text) for name in names for text in (name, f"{place.table}: {name}")}


def _squeezed(text: str) -> str:
    return " ".join(text.split())

"""Takes trials and sweeps of other results folders into one; nothing that is there is overwritten or lost."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mucon.errors import InputError, Problem
from storage import failpoints
from sweeps.service.text import digest
from sweeps.service.trials import lease
from sweeps.service.trials.folder import FORMAT_VERSION, WHOLE_RESULT_SHAPE, TrialFolder, read_result
from sweeps.service.trials.identity import is_identity
from sweeps.service.trials.journal import Journal, milliseconds
from sweeps.service.trials.json_files import write_json
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep import trash
from sweeps.service.upkeep.copies import copy, move_into_place

NOT_OF_THE_BITS = ("format_version", "first", "seconds", "train_seconds", "evaluate_seconds")
"""Parts of a result that differ between two evaluations with the same bits."""


class Verdict(StrEnum):
    """What happens to a trial or a sweep of another results folder."""

    COPIED = "copied"
    REPLACED = "replaced"
    """It takes the place of an unfinished one, whose journal is kept."""
    EXTENDED = "extended"
    """Further evaluations of a trial, or further rows of a sweep's record, are added."""
    SAME = "same"
    BEHIND = "behind"
    """The one here is further."""
    CONFLICT = "conflict"
    """It has other bits under the same identity; both are kept."""
    BUSY = "busy"
    REFUSED = "refused"


INCOMPLETE = frozenset({Verdict.CONFLICT, Verdict.BUSY, Verdict.REFUSED})
"""Verdicts after which a merge is not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happened to a trial or a sweep.

    Attributes:
        name: identity of the trial, or name of the sweep there.
        source: the other results folder.
        verdict: what happened.
        detail: where it is, or why it is not.
    """

    name: str
    source: str
    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a trial's directory contains.

    Attributes:
        weights: sha256 of the weights; None before the training has finished.
        epochs: number of finished epochs.
        evaluations: identity of each finished evaluation -> digest of its scores.
    """

    weights: str | None
    epochs: int
    evaluations: Mapping[str, str] = field(default_factory=dict)

    @property
    def bits(self) -> str:
        """Digest of weights and scores."""
        return digest(json.dumps([self.weights, *sorted(self.evaluations.items())]))


def decide(here: Content | None, there: Content) -> Verdict:
    """What happens to a trial that exists here, or does not, and there.

    >>> trained, begun = Content(weights="a", epochs=9), Content(weights=None, epochs=4)
    >>> str(decide(None, begun)), str(decide(begun, trained)), str(decide(trained, begun))
    ('copied', 'replaced', 'behind')
    """
    if here is None:
        return Verdict.COPIED
    if here.weights is None:
        is_further = there.weights is not None or there.epochs > here.epochs
        return Verdict.REPLACED if is_further else Verdict.SAME if there.epochs == here.epochs else Verdict.BEHIND
    if there.weights is None:
        return Verdict.BEHIND
    shared = here.evaluations.keys() & there.evaluations.keys()
    if here.weights != there.weights or any(here.evaluations[name] != there.evaluations[name] for name in shared):
        return Verdict.CONFLICT
    return Verdict.EXTENDED if there.evaluations.keys() - shared else Verdict.SAME


def content_of(folder: TrialFolder) -> Content | None:
    """What a trial's directory contains; None for one that has not started.

    Raises:
        InputError: a file is damaged, of another format version, or of another trial.
    """
    if not folder.trial_path.exists() and not folder.journal_path.exists() and not folder.training_path.exists():
        return None
    reading = TrialReading(folder)
    reading.check()
    known = reading.trial.get("identity", folder.identity) if reading.exists else folder.identity
    if known != folder.identity or not is_identity(folder.identity):
        place, expected = str(folder.trial_path), f"the identity {folder.identity}, the directory's name"
        raise InputError(Problem(rule="mismatch", place=place, value=known, expected=expected))
    training = reading.training
    results = {path.parent.name: read_result(path, WHOLE_RESULT_SHAPE) for path in _result_paths(folder)}
    return Content(
        weights=None if training is None else training["weights_sha256"],
        epochs=reading.n_epochs,
        evaluations={
            name: digest(json.dumps({k: v for k, v in result.items() if k not in NOT_OF_THE_BITS}, sort_keys=True))
            for name, result in results.items()
        },
    )


def _result_paths(folder: TrialFolder) -> list[Path]:
    return sorted(folder.path.glob("evaluations/*/result.json"))


@contextlib.contextmanager
def workspace(results: ResultsFolder, *, dry_run: bool) -> Iterator[Path]:
    """Where copies are until they are whole, for one merge at a time; elsewhere in a dry run.

    Raises:
        InputError: another process merges into the same results folder.
    """
    if dry_run:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    place = trash.incoming(results)
    held = lease.acquire(place)
    if held is None:
        owner = lease.holder(place) or "another process"
        message = f"another merge into this folder is under way ({owner})"
        raise InputError(Problem(rule="busy", place=str(results.path), value=str(owner), message=message))
    with held:
        try:
            _clear(place)  # of what a kill has left
            yield place
        finally:
            _clear(place)


def _clear(place: Path) -> None:
    for left in place.iterdir():
        if left.is_dir() and not left.name.startswith("lease-"):
            shutil.rmtree(left, ignore_errors=True)


def sources_of(paths: Sequence[Path], results: ResultsFolder) -> list[ResultsFolder]:
    """The results folders at some paths.

    Raises:
        InputError: one problem per path that is no results folder, or the one that is merged into.
    """
    sources, problems = [ResultsFolder.at(path) for path in paths], []
    for source in sources:
        if source.path.resolve() == results.path.resolve():
            message = "this is the folder that is merged into"
            problems.append(Problem(rule="conflict", place=str(source.path), value="same", message=message))
        elif not any((source.path / name).is_dir() for name in ("trials", "sweeps")):
            message = "no results folder (it contains neither trials nor sweeps)"
            problems.append(Problem(rule="missing", place=str(source.path), value="trials", message=message))
    if problems:
        raise InputError(problems)
    return sources


def merge_trials(source: ResultsFolder, results: ResultsFolder, incoming: Path, *, dry_run: bool) -> Iterator[Step]:
    """Takes the trials of another results folder, one after the other."""
    for path in sorted((source.path / "trials").glob("*/")):
        try:
            verdict, detail = _merge_trial(TrialFolder(path), results, incoming, dry_run=dry_run)
        except InputError as error:
            verdict, detail = Verdict.REFUSED, error.line
        if verdict is not None:
            yield Step(name=path.name, source=str(source.path), verdict=verdict, detail=detail)


def _merge_trial(
    there: TrialFolder, results: ResultsFolder, incoming: Path, *, dry_run: bool
) -> tuple[Verdict | None, str]:
    """What happens to a trial, and where it is or why it is not; None for an empty directory."""
    source, holder = there.path.parents[1], lease.holder(there.path)
    if holder is not None:
        return Verdict.BUSY, f"in use there ({holder})"
    if (there.path / "result.json").exists():  # of format 1: converted in a copy
        copied = TrialFolder(incoming / "earlier" / there.identity)
        copy(there.path, copied.path)
        copied.upgrade()
        there = copied
    theirs, here = content_of(there), results.trial(there.identity)
    if theirs is None:
        return None, ""
    verdict = decide(content_of(here), theirs)
    if verdict is Verdict.CONFLICT:
        place = results.path / "conflicts" / f"{there.identity}-{theirs.bits}"
        if not dry_run and not place.exists():
            copy(there.path, incoming / there.identity)
            failpoints.reach("sweeps.upkeep.copied")
            move_into_place(incoming / there.identity, place)
        return verdict, f"other bits here; those of {source} {'would be' if dry_run else 'are'} in {place}"
    if verdict in (Verdict.SAME, Verdict.BEHIND) or dry_run:
        return verdict, ""
    held = lease.acquire(here.path)
    if held is None:
        return Verdict.BUSY, f"in use here ({lease.holder(here.path) or 'another process'})"
    with held:
        if decide(content_of(here), theirs) is not verdict:  # a process has written meanwhile
            return Verdict.BUSY, "in use here until now"
        if verdict is Verdict.EXTENDED:
            _extend(there, TrialFolder(here.path, held.writer()), incoming)
            return verdict, ""
        new = TrialFolder(incoming / there.identity)
        copy(there.path, new.path)
        if content_of(new) != theirs or lease.holder(there.path) is not None:
            return Verdict.BUSY, "in use there"
        if here.journal_path.exists():
            shutil.copyfile(here.journal_path, _free(new.journal_path))
        failpoints.reach("sweeps.upkeep.copied")
        held.confirm()
        move_into_place(new.path, here.path)
        failpoints.reach("sweeps.upkeep.moved")
    return verdict, ""


def _free(journal: Path) -> Path:
    """A name for the journal of a replaced trial."""
    number = 1
    while (path := journal.with_name(f"{journal.name}.replaced-{number}")).exists():
        number += 1
    return path


def _extend(there: TrialFolder, here: TrialFolder, incoming: Path) -> None:
    """Adds the evaluations that a trial lacks, one by one.

    They are recorded in the journal first: only a journal that has changed makes a sweep look at the trial's run again.
    """
    lacking = [path for path in _result_paths(there) if not here.result_path(path.parent.name).exists()]
    with Journal(here.journal_path, here.writer) as written:
        added = [path.parent.name for path in lacking]
        written.append({"kind": "merge", "at": milliseconds(), "evaluations": added}, durably=True)
    for path in lacking:
        new = incoming / f"{here.identity}-{path.parent.name}"
        copy(path.parent, new)
        first = not _result_paths(here)
        write_json(new / path.name, {**read_result(path), "format_version": FORMAT_VERSION, "first": first})
        failpoints.reach("sweeps.upkeep.copied")
        here.writer.confirm()
        move_into_place(new, here.evaluation_path(path.parent.name))
        failpoints.reach("sweeps.upkeep.extended")

"""Takes the plans and records of sweeps of another results folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mucon.errors import InputError
from storage import failpoints
from sweeps.service.plan import plan as plans
from sweeps.service.plan import sweep_folder
from sweeps.service.plan.imported import read_rows, write_imported
from sweeps.service.plan.plan import read_plan
from sweeps.service.plan.sweep_folder import hold, read_sweep
from sweeps.service.trials import lease
from sweeps.service.trials.json_files import read_json, write_json
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.copies import copy, move_into_place
from sweeps.service.upkeep.merging import Step, Verdict


def merge_sweeps(source: ResultsFolder, results: ResultsFolder, incoming: Path, *, dry_run: bool) -> Iterator[Step]:
    """Takes the sweeps of another results folder, one after the other; their trials must have been merged."""
    for name in sorted({folder.name for file in (plans.FILE, sweep_folder.FILE) for folder in source.sweeps(file)}):
        try:
            verdict, detail = _merge_sweep(source, name, results, incoming, dry_run=dry_run)
        except InputError as error:
            busy = all(problem.rule == "busy" for problem in error.problems)
            verdict, detail = Verdict.BUSY if busy else Verdict.REFUSED, error.line
        yield Step(name=name, source=str(source.path), verdict=verdict, detail=detail)


def _merge_sweep(
    source: ResultsFolder, name: str, results: ResultsFolder, incoming: Path, *, dry_run: bool
) -> tuple[Verdict, str]:
    if (holder := lease.holder(source.running(name))) is not None:
        return Verdict.BUSY, f"in use there ({holder})"
    theirs = _read(source, name)
    number, target = 1, name
    while results.sweep(target).exists() and not _is_same(_read(results, target), theirs):
        number += 1
        target = f"{name}-{number}"
    place = results.sweep(target)
    detail = "" if target == name else f"another sweep has this name; it is kept as {target}"
    ours = _read(results, target).get(sweep_folder.FILE) if place.exists() else None
    record = _merged_record(ours, theirs.get(sweep_folder.FILE), target)
    if not place.exists():
        if not dry_run:
            with hold(results, target):
                new = incoming / f"sweep-{target}"
                copy(source.sweep(name), new, _is_left)
                if plans.FILE in theirs:
                    write_json(new / plans.FILE, {**theirs[plans.FILE], "name": target})
                if record is not None:
                    write_json(new / sweep_folder.FILE, record)
                failpoints.reach("sweeps.upkeep.copied")
                move_into_place(new, place)
        return Verdict.COPIED, detail
    is_same = record is None or (ours is not None and all(ours[key] == record[key] for key in ("rows", "created")))
    known = {(row.table, row.name) for row in read_rows(place)}
    more = [row for row in read_rows(source.sweep(name)) if (row.table, row.name) not in known]
    if is_same and not more:
        return Verdict.SAME, detail
    if not dry_run:
        with hold(results, target):
            if record is not None:
                write_json(place / sweep_folder.FILE, record)
            if more:
                write_imported(place, [*read_rows(place), *more])
    return Verdict.EXTENDED, detail


def _is_left(path: Path) -> bool:
    """Whether a file of a sweep is not copied: addresses of runs, and the page of a sweep that has not ended."""
    if path.name == sweep_folder.LIVE_PAGE:
        final = path.with_name(f"{path.parent.name}.html")
        return not (final.exists() and final.read_bytes() == path.read_bytes())
    return path.name == sweep_folder.LINKS_FILE


def _read(results: ResultsFolder, name: str) -> dict[str, dict[str, Any]]:
    """The plan and the record of a sweep, by the name of the file; checked.

    Raises:
        InputError: one of them is damaged or of another format version.
    """
    files = [file for file in (plans.FILE, sweep_folder.FILE) if (results.sweep(name) / file).exists()]
    if plans.FILE in files:
        read_plan(results, name)
    read_sweep(results.sweep(name))
    return {file: read_json(results.sweep(name) / file, hint="") for file in files}


def _is_same(ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether two sweeps have the same tables with the same trials, which the same rule chose."""
    first, second = (files.get(plans.FILE, {}) for files in (ours, theirs))
    return all(first.get(key) == second.get(key) for key in ("tables", "seed_rule"))


def _merged_record(
    ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None, name: str
) -> dict[str, Any] | None:
    """The record of a merged sweep: the rows of both, the earlier start; not shipped, and not run again from here."""
    if theirs is None:
        return None
    base = {**theirs, "name": name, "rerun": None} if ours is None else ours
    created = min(filter(None, (base["created"], theirs["created"])), default=None)
    both = {key: {**(theirs.get(key) or {}), **(base.get(key) or {})} for key in ("rows", "labels")}
    return {**base, **both, "created": created, "shipped": {}}

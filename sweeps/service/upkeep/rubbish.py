"""What nobody needs in a results folder: leftovers of dead processes, and checkpoints and trials beyond their use."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mucon.checkpoint_files import STATE
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep import trash
from sweeps.service.upkeep.retention import beyond, reduce, resuming_files
from sweeps.service.upkeep.uses import read_uses

KINDS = {
    "temporaries": "unfinished files of dead writers",
    "leases": "leases with a successor",
    "scratch": "scratch files of sweeps that do not run",
    "trash": "rest of interrupted removals and merges",
    "checkpoints": "states of optimisers beyond --keep",
    "damaged": "damaged files that were set aside",
    "orphans": "trials that no sweep contains",
}
SECONDS_PER_DAY = 86400.0
OLD_SECONDS = 3600.0
"""Age of an unfinished file whose writer holds no lease, from which the writer is taken to be dead."""
_TEMPORARY = re.compile(r"\..+\.(\d+|[0-9a-f]{32}|parquet)|lease-\d+\.[0-9a-f]{32}")
_STAGING = re.compile(r"lease-\d+-[0-9a-f]+")
"""A folder of unfinished files, see `lease`."""
_DAMAGED = re.compile(r".+\.damaged-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubbish:
    """A file or directory that nobody needs.

    Attributes:
        kind: one of `KINDS`.
        path: its path.
        n_bytes: its size.
        owner: the directory whose lease allows its removal.
    """

    kind: str
    path: Path
    n_bytes: int
    owner: Path


def find(
    results: ResultsFolder,
    *,
    orphans: bool = False,
    damaged_days: float | None = None,
    registered: Callable[[], Collection[str]] = tuple,
) -> list[Rubbish]:
    """Finds what nobody needs; what a process holds is left out.

    Args:
        results: the results folder.
        orphans: whether trials that no sweep contains count, unless others start from them.
        damaged_days: age in days from which damaged files that were set aside count; None: they do not.
        registered: returns the identities of trials with registered models, which are no orphans and stay whole;
            called only if it matters.

    Raises:
        InputError: orphans are asked for while the trials of a sweep are not known, see `Uses.check`.
    """
    uses = read_uses(results)
    if orphans:
        uses.check(results)
    with_models = registered() if orphans else ()
    found: list[Rubbish] = []
    lonely: set[str] = set()
    for path in _folders(results, "trials"):
        if lease.holder(path) is not None:
            continue
        if orphans and path.name not in with_models and not uses.needed_by(path.name):
            lonely.add(path.name)
            found.append(Rubbish(kind="orphans", path=path, n_bytes=trash.size(path), owner=path))
        else:
            found += of_trial(path, damaged_days)
    outputs = results.output("").parent
    scratch = [path for path in _folders(results, "running") if path != outputs]
    idle = [path for path in scratch if lease.holder(path) is None]
    for path in idle:
        found += of_scratch(path)
    if idle == scratch:  # a running sweep adds the output of a dead worker to the log of its trial
        found += _of_outputs(results, outputs)
    for path in _folders(results, "sweeps"):
        if lease.holder(results.running(path.name)) is None:
            found += _unfinished(trash.files(path), results.running(path.name))
    found += _unfinished((file for file in _entries(results.path) if file.is_file()), trash.incoming(results))
    for path in (trash.trash(results), trash.incoming(results)):
        if lease.holder(trash.incoming(results)) is None:
            found += [_item("trash", entry, trash.incoming(results)) for entry in _entries(path) if entry.is_dir()]
    for folder in beyond(results, uses, registered):
        if folder.identity not in lonely and lease.holder(folder.path) is None:
            found += [_item("checkpoints", path, folder.path) for path in resuming_files(folder)]
    return found


def remove(results: ResultsFolder, found: Iterable[Rubbish], damaged_days: float | None = None) -> list[Rubbish]:
    """Removes what `find` has found, as far as nobody holds it now; returns what is removed.

    Args:
        results: the results folder.
        found: what to remove.
        damaged_days: as for `find`.
    """
    removed: list[Rubbish] = []
    trash.empty(results)  # first, because a lease needs room, too
    for owner, group in groupby(sorted(found, key=_owner), key=_owner):
        items = list(group)
        is_trial = owner.parent == results.path / "trials"
        checkpoints = [item for item in items if item.kind == "checkpoints"]
        if is_trial and checkpoints and reduce(TrialFolder(owner)):
            removed += checkpoints
        others = [item for item in items if item.kind != "checkpoints"]
        held = lease.acquire(owner) if others and (owner.exists() or not is_trial) else None
        if held is None:
            continue
        with held:
            if any(item.kind == "orphans" for item in others):
                trash.remove(results, owner)
            else:
                others = _current(
                    others,
                    owner,
                    of_trial(owner, damaged_days, held=True) if is_trial else of_scratch(owner, held=True),
                )
            for item in others:
                _remove(item.path)
        removed += others
    return removed


def _current(found: list[Rubbish], owner: Path, now: Iterable[Rubbish]) -> list[Rubbish]:
    """What was found and is still rubbish or gone, now that nobody else writes in the owner, and its old leases."""
    listed = {item.path: item for item in now}
    kept = [i for i in found if i.path in listed or not i.path.exists() or owner not in i.path.parents]
    leases = [item for item in listed.values() if item.kind == "leases"]
    return list({item.path: item for item in (*kept, *leases)}.values())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def of_trial(path: Path, damaged_days: float | None = None, *, held: bool = False) -> Iterator[Rubbish]:
    """What nobody needs in a trial's directory that no other process holds.

    Args:
        path: the directory.
        damaged_days: as for `find`.
        held: whether this process holds it.
    """
    for kind, entry in _of_leases(path, held=held):
        yield _item(kind, entry, path)
    unneeded = list((path / "run").glob("checkpoint.new*"))
    if (path / "run" / "checkpoint" / STATE).is_file():
        unneeded.append(path / "run" / "checkpoint.previous")
    yield from (_item("temporaries", folder, path) for folder in unneeded if folder.exists())
    for file in trash.files(path):
        if _TEMPORARY.fullmatch(file.name):
            yield _item("temporaries", file, path)
    old = None if damaged_days is None else time.time() - damaged_days * SECONDS_PER_DAY
    for entry in path.rglob("*.damaged-*"):
        if old is not None and _DAMAGED.fullmatch(entry.name) and entry.lstat().st_ctime <= old:  # of its renaming
            yield _item("damaged", entry, path)


def of_scratch(path: Path, *, held: bool = False) -> Iterator[Rubbish]:
    """What a sweep that does not run has left in its scratch directory; `held` as for `of_trial`."""
    for kind, entry in _of_leases(path, held=held):
        yield _item(kind, entry, path)
    for entry in _entries(path):
        if not entry.name.startswith("lease-"):
            yield _item("scratch", entry, path)


def _of_outputs(results: ResultsFolder, outputs: Path) -> Iterator[Rubbish]:
    """What processes that are gone have printed; the output of a trial that a process holds is still written."""
    for file in _entries(outputs):
        trial = results.trial(file.stem).path
        if lease.holder(trial) is None:
            yield _item("scratch", file, trial if trial.exists() else trash.incoming(results))


def _of_leases(path: Path, *, held: bool) -> Iterator[tuple[str, Path]]:
    """All leases but the newest, which keeps the count, and the folders of unfinished files of dead holders."""
    leases = sorted(path.glob("lease-*.json"))
    yield from (("leases", entry) for entry in leases[:-1])
    ours = f"{leases[-1].stem}-" if held else "-"
    for entry in _entries(path):
        if _STAGING.fullmatch(entry.name) and not entry.name.startswith(ours):
            yield "temporaries", entry


def _unfinished(files: Iterable[Path], owner: Path) -> Iterator[Rubbish]:
    """The unfinished files among those that are written without a lease, by a report for example."""
    for file in files:
        if _TEMPORARY.fullmatch(file.name) and file.lstat().st_mtime < time.time() - OLD_SECONDS:
            yield _item("temporaries", file, owner)


def _item(kind: str, path: Path, owner: Path) -> Rubbish:
    return Rubbish(kind=kind, path=path, n_bytes=trash.size(path), owner=owner)


def _owner(item: Rubbish) -> Path:
    return item.owner


def _folders(results: ResultsFolder, name: str) -> list[Path]:
    return [path for path in _entries(results.path / name) if path.is_dir()]


def _entries(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else []

"""Removes a sweep: its own directory and the trials that nobody else needs."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from mucon.errors import InputError, Problem, nearest, some
from storage import failpoints
from sweeps.service.plan.sweep_folder import hold
from sweeps.service.spec.texts import name_problems
from sweeps.service.trials import lease
from sweeps.service.trials.lease import Lease
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep import trash
from sweeps.service.upkeep.uses import read_uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What the removal of a sweep removes and leaves.

    Attributes:
        name: name of the sweep.
        trials: identity -> bytes of each trial that is removed.
        kept: identity -> who needs it, of each trial of the sweep that stays.
        n_bytes: bytes of the sweep's own directory.
    """

    name: str
    trials: Mapping[str, int]
    kept: Mapping[str, str]
    n_bytes: int


def plan_removal(results: ResultsFolder, name: str, registered: Collection[str] = ()) -> Removal:
    """Finds what the removal of a sweep removes.

    Args:
        results: the results folder.
        name: name of the sweep.
        registered: identities of trials with registered models, which stay.

    Raises:
        InputError: no such sweep, it or one of its trials is running, or the trials of a sweep are not known.
    """
    uses = read_uses(results)
    interrupted = trash.place(results, results.sweep(name))
    is_name = not any(name_problems("name", name))
    if is_name and name not in uses.sweeps and interrupted.exists():
        return Removal(name=name, trials={}, kept={}, n_bytes=trash.size(interrupted))
    if not is_name or name not in uses.sweeps:
        message = f"no sweep {name!r}{nearest(name, list(uses.sweeps))} (sweeps: {some(list(uses.sweeps)) or 'none'})"
        raise InputError(Problem(rule="unknown", place=str(results.path), value=name, message=message))
    uses.check(results)
    existing = {identity for identity in uses.sweeps[name] if results.trial(identity).path.exists()}
    kept = dict.fromkeys(existing & set(registered), "a registered model")
    while more := {
        identity: users
        for identity in existing - set(kept)
        if (users := uses.needed_by(identity, sweep=name, trials=existing - set(kept)))
    }:  # a trial that stays may start from another one
        kept |= more
    held = {
        place: holder
        for place, path in [
            (name, results.running(name)),
            *((trial, results.trial(trial).path) for trial in sorted(existing - set(kept))),
        ]
        if (holder := lease.holder(path)) is not None
    }
    if held:
        raise InputError(
            [
                Problem(rule="busy", place=str(results.path), value=place, message=f"{place} is in use ({holder})")
                for place, holder in held.items()
            ]
        )
    return Removal(
        name=name,
        trials={identity: trash.size(results.trial(identity).path) for identity in sorted(existing - set(kept))},
        kept=dict(sorted(kept.items())),
        n_bytes=trash.size(results.sweep(name)),
    )


def remove(results: ResultsFolder, removal: Removal) -> dict[str, str]:
    """Removes a sweep; after a kill at any moment the same removal completes it.

    The trials come first and the sweep's directory last, so that an interrupted removal still finds its trials.

    Returns:
        Identity -> holder of each trial that another process has begun to run meanwhile, and that stays.

    Raises:
        InputError: the sweep is running.
    """
    taken = {}
    trash.empty(results)
    with _unless_full(partial(hold, results, removal.name)) or contextlib.nullcontext():
        for identity in removal.trials:
            path = results.trial(identity).path
            if not path.exists():
                continue
            held = _unless_full(partial(lease.acquire, path))
            if held is None:
                taken[identity] = f"in use ({lease.holder(path) or 'another process'})"
                continue
            with held:
                trash.remove(results, path)
            failpoints.reach("sweeps.upkeep.removed")
        if not taken:
            trash.remove(results, results.sweep(removal.name))
            trash.remove(results, results.running(removal.name))
    return taken


def _unless_full(acquire: Callable[[], Lease | None]) -> Lease | contextlib.nullcontext[None] | None:
    """A lease; none is needed on a full disk, where nobody can acquire one, and where a removal makes room."""
    try:
        return acquire()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return contextlib.nullcontext()

"""Rebuilds the MLflow runs of a results folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from mucon.errors import InputError, Problem
from sweeps.service.plan.sweep_folder import (
    Outcome,
    Shipped,
    SweepInfo,
    SweepRecord,
    mark_shipped,
    read_sweeps,
    write_links,
)
from sweeps.service.text import redacted
from sweeps.service.track.content.changes import Shipment
from sweeps.service.track.tracker import PATIENCE_SECONDS, TRACKING_EXPERIMENT, Tracker
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder


def sync(
    results: ResultsFolder,
    uri: str,
    *,
    patience: float = PATIENCE_SECONDS,
    outcome_of: Callable[[str], Outcome | None] = lambda _: None,
    digest_of: Callable[[str], str] = lambda _: "",
) -> dict[str, Shipment]:
    """Brings the runs of all sweeps and trials of a results folder up to date.

    Complete runs do not change; missing, deleted and unfinished ones are created or completed, and runs whose metrics
    have the names of an older program are replaced. A trial belongs to the
    oldest sweep that uses it, or to `other_trials` if no sweep does.

    Args:
        results: the results folder.
        uri: address of the tracking server.
        patience: seconds per sweep during which a server that does not respond is asked again.
        outcome_of: returns what the sweep of a name has found; None if that is not known.
        digest_of: returns the digest of the plan of a sweep; empty if that is not known.

    Returns:
        Sweep's name -> its shipment.

    Raises:
        InputError: no trials, or a server that does not respond.
    """
    trials = started_trials(results)
    sweeps, unreadable = read_sweeps(results)
    others = sorted(set(trials) - {identity for sweep in sweeps for identity in sweep.rows})
    if others and not unreadable:  # they may belong to a sweep whose record cannot be read
        sweeps.append(_others(results, others, sweeps))
    shipments = {name: Shipment(unreadable=reason) for name, reason in unreadable.items()}
    for record in sweeps:
        folders = [trials[identity] for identity in record.rows if identity in trials]
        for path in record.tables.values():
            _remove_secrets(path)
        name = record.sweep.name
        tracker = Tracker(uri, record.experiment_name, record.sweep, record.rows, results)
        tracker.check()
        with tracker:
            shipments[name] = tracker.finish(folders, record.tables, patience, outcome_of(name))
            if record.created is not None:
                write_links(results.sweep(name), tracker.links)
                shown = digest_of(name) if shipments[name].complete else ""
                mark_shipped(results.sweep(name), tracker.uri, Shipped(sweep=shown, trials=tracker.settled))
    return shipments


def started_trials(results: ResultsFolder) -> dict[str, TrialFolder]:
    """The directories of the trials that have started, by identity.

    Raises:
        InputError: there are none.
    """
    trials = {folder.identity: folder for folder in results.trials()}
    if not trials:
        raise InputError(
            Problem(
                rule="missing",
                place=str(results.path),
                value="trials",
                message="no trial has run in this folder",
                hint="name another results folder",
            )
        )
    return trials


def _remove_secrets(page: Path) -> None:
    """Rewrites a page of an older program that contains the password of a tracking server."""
    if page.suffix == ".html":
        text = page.read_text(encoding="utf-8", errors="surrogateescape")
        clean = '"'.join(redacted(part) for part in text.split('"'))
        if clean != text:
            page.write_text(clean, encoding="utf-8", errors="surrogateescape")


def _others(results: ResultsFolder, identities: list[str], sweeps: list[SweepRecord]) -> SweepRecord:
    """A record of the trials that no sweep uses."""
    return SweepRecord(
        sweep=SweepInfo(
            name="other_trials",
            title="Trials that no sweep of this results folder uses",
            command=shlex.join(["mucon-sweeps", "sync", str(results.path)]),
            config={},
        ),
        experiment_name=sweeps[0].experiment_name if sweeps else TRACKING_EXPERIMENT,
        created=None,
        rows={identity: identity[:8] for identity in identities},
        tables={},
    )

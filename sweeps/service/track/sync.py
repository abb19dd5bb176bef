"""Rebuilds the MLflow runs of a results folder."""

from __future__ import annotations

from mucon.errors import InputError, Problem
from sweeps.service.plan.sweep_folder import SweepInfo, SweepRecord, read_sweeps, write_links
from sweeps.service.track.changes import Shipment
from sweeps.service.track.tracker import PATIENCE_SECONDS, TRACKING_EXPERIMENT, Tracker
from sweeps.service.trials.results_folder import ResultsFolder


def sync(results: ResultsFolder, uri: str, *, patience: float = PATIENCE_SECONDS) -> dict[str, Shipment]:
    """Brings the runs of all sweeps and trials of a results folder up to date.

    Complete runs are left alone; missing, deleted and unfinished ones are made or completed. A trial is shown under
    the oldest sweep that uses it; one that no sweep uses is shown under `other_trials`.

    Args:
        results: the results folder.
        uri: address of the tracking server.
        patience: seconds for which a server that does not answer is asked again, for each sweep.

    Returns:
        Sweep's name -> what was achieved.

    Raises:
        InputError: no trials there, a damaged record, or a server that does not answer.
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
    sweeps = read_sweeps(results)
    others = sorted(set(trials) - {identity for sweep in sweeps for identity in sweep.rows})
    if others:
        sweeps.append(_others(results, others, sweeps))
    achieved: dict[str, Shipment] = {}
    for record in sweeps:
        folders = [trials[identity] for identity in record.rows if identity in trials]
        with Tracker(uri, record.experiment_name, record.sweep, record.rows) as tracker:
            achieved[record.sweep.name] = tracker.finish(folders, record.tables, patience)
            if record.created is not None:
                write_links(results.sweep(record.sweep.name), tracker.links)
    return achieved


def _others(results: ResultsFolder, identities: list[str], sweeps: list[SweepRecord]) -> SweepRecord:
    """A record for the trials that no sweep uses."""
    return SweepRecord(
        sweep=SweepInfo(
            name="other_trials",
            title="Trials that belong to no sweep of this results folder",
            command=f"mucon-sweeps sync {results.path}",
            config={},
        ),
        experiment_name=sweeps[0].experiment_name if sweeps else TRACKING_EXPERIMENT,
        created=None,
        rows={identity: identity[:8] for identity in identities},
        tables={},
    )

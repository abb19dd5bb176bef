"""Makes a tracking server show a results folder, from nothing or from whatever it shows."""

from __future__ import annotations

from pathlib import Path

from mucon.errors import InputError
from sweeps.service.plan.sweep_folder import SweepInfo, SweepRecord, read_sweeps, write_links
from sweeps.service.track.changes import Shipment
from sweeps.service.track.tracker import PATIENCE, Tracker


def sync(results: Path, uri: str, *, patience: float = PATIENCE) -> dict[str, Shipment]:
    """Brings the runs of all sweeps and trials of a results folder to what the folder says.

    Runs that are complete are left alone, missing, deleted and unfinished ones are made or completed. A trial stands
    under the oldest sweep that uses it; one that no sweep knows stands under `other_trials`.

    Args:
        results: the folder that holds `trials/` and `sweeps/`.
        uri: of the tracking server.
        patience: seconds for which a server that does not answer is asked again, for each sweep.

    Returns:
        Sweep's name -> what was achieved.

    Raises:
        InputError: no trials there, a damaged record, or a server that does not answer.
    """
    trials = {path.parent.name: path.parent for path in sorted(results.glob("trials/*/trial.json"))}
    if not trials:
        raise InputError(f"a results folder holds trials/IDENTITY/trial.json, {results} has none: name another folder")
    sweeps = read_sweeps(results)
    others = sorted(set(trials) - {identity for sweep in sweeps for identity in sweep.rows})
    if others:
        sweeps.append(_others(results, others, sweeps))
    achieved: dict[str, Shipment] = {}
    for record in sweeps:
        folders = [trials[identity] for identity in record.rows if identity in trials]
        with Tracker(uri, record.experiment_name, record.sweep, record.rows) as tracker:
            achieved[record.sweep.name] = tracker.finish(folders, record.tables, patience)
            if record.created:
                write_links(results / "sweeps" / record.sweep.name, tracker.links)
    return achieved


def _others(results: Path, identities: list[str], sweeps: list[SweepRecord]) -> SweepRecord:
    """A sweep for the trials that no sweep knows."""
    return SweepRecord(
        sweep=SweepInfo(
            name="other_trials",
            title="Trials that belong to no sweep of this results folder",
            command=f"mucon-sweeps sync {results}",
            config={},
        ),
        experiment_name=sweeps[0].experiment_name if sweeps else "mucon",
        created="",
        rows={identity: identity[:8] for identity in identities},
        tables={},
    )

"""The runs of trials: finds, creates and completes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from storage import failpoints
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.changes import (
    NAMES_TAG,
    NOTE_TAG,
    OWNER_TAG,
    PARENT_TAG,
    Run,
    batches,
    changes,
    kept_tags,
)
from sweeps.service.track.description import source_tags, trial_description
from sweeps.service.track.names import METRIC_NAMES
from sweeps.service.track.records import STATUS, TrialRecord, artifacts
from sweeps.service.track.server import ServerError
from sweeps.service.track.sweep_run import SweepRun
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.reading import TrialReading

if TYPE_CHECKING:
    from sweeps.service.track.client import Client


class TrialRuns:
    """The runs of a sweep's trials, one for each.

    Args:
        client: the connection.
        sweep: the sweep.
        rows: trial identity -> row of the table, for the names of the runs.
        parent: the sweep's run.

    Raises (every method):
        ServerError: the server does not respond or rejects a request.
    """

    def __init__(self, client: Client, sweep: SweepInfo, rows: Mapping[str, str], parent: SweepRun) -> None:
        self._client, self._sweep, self._rows, self._parent = client, sweep, rows, parent
        runs: dict[str, list[Run]] = {}
        for run in client.search(f"tags.`sweep.{sweep.name}` LIKE '%' AND tags.trial LIKE '%'"):
            runs.setdefault(run.tags["trial"], []).append(run)
        self.known = {trial: one for trial, (one, *others) in runs.items() if one.is_current and not others}

    def update(self, record: TrialRecord, reading: TrialReading) -> None:
        """Brings a run up to date; a run that was deleted meanwhile is created again."""
        run = self._run_of(record)
        try:
            self._send(run, record, reading)
        except ServerError:
            if not self._client.is_gone(run.run_id):
                raise
            del self.known[record.identity]
            self._send(self._run_of(record), record, reading)

    def _send(self, run: Run, record: TrialRecord, reading: TrialReading) -> None:
        """Sends parameters, values and tags, then the dataset and the artifacts, and last the status, which marks them.

        A finished run does not change while the same trial is trained in another results folder.
        """
        if run.status == STATUS[State.FINISHED] and record.state is not State.FINISHED:
            return
        change = changes(run, record, self._tags(run, record, reading.folder))
        for points, params, tags in batches(change):
            self._client.log(run.run_id, points, params, tags)
            failpoints.reach("sweeps.tracking.batch")
        run.params |= set(change.params)
        run.tags |= change.tags
        if not run.has_data:
            self._client.log_data(run.run_id, record.data)
            run.has_data = True
        status = STATUS[record.state]
        if record.state is State.FINISHED and run.status != status:
            self._client.log_json(run.run_id, record.config, "config.json")
            for path, place in artifacts(reading):
                self._client.log_files(run.run_id, path, place)
                failpoints.reach("sweeps.tracking.artifact")
        name = self._name(record) if self._is_named_here(run, record) else run.name
        if record.ended is None and (run.status, run.name) != (status, name):
            self._client.update(run.run_id, status=status, name=name)
        elif record.ended is not None:
            if run.name != name:
                self._client.update(run.run_id, name=name)
            if run.status != status:
                self._client.end(run.run_id, status, record.ended)
        run.name, run.status = name, status

    def _run_of(self, record: TrialRecord) -> Run:
        """The trial's only run in this experiment; it is created if the server has none.

        Two trackers, or a request that was sent twice, can create two runs: every tracker keeps the one with the
        smallest id and deletes the others. Servers cannot rename metrics: a run with the names of an older program is
        replaced by a new one with its tags, which is deleted only once the new one exists. A finished one stays while
        the trial has no result here.
        """
        identity = record.identity
        if identity not in self.known:
            condition = f"tags.trial = '{identity}'"
            runs = self._client.search(condition)
            older = [run for run in runs if not run.is_current]
            if older and record.state is not State.FINISHED:
                finished = [run for run in older if run.status == STATUS[State.FINISHED]]
                if finished:
                    return finished[0]
            if len(older) == len(runs):
                tags = {"trial": identity, OWNER_TAG: self._sweep.name, PARENT_TAG: self._parent.run_id}
                tags |= {
                    **source_tags(self._sweep.command),
                    **(kept_tags(older[0]) if older else {}),
                    NAMES_TAG: METRIC_NAMES,
                }
                self._client.create_run(self._name(record), tags, record.started)
                failpoints.reach("sweeps.tracking.created")
                runs = self._client.search(condition)
            ordered = sorted(runs, key=lambda run: (not run.is_current, run.run_id))
            self.known[identity] = ordered[0]
            for other in ordered[1:]:
                self._client.delete_run(other.run_id)
        return self.known[identity]

    def _tags(self, run: Run, record: TrialRecord, folder: TrialFolder) -> dict[str, str]:
        """The tags that this sweep sets; parent and row are set by the sweep that trained the trial."""
        row = self._rows.get(record.identity, "")
        tags = {f"sweep.{self._sweep.name}": row or "used"}
        if run.tags.get(OWNER_TAG) == self._sweep.name:
            tags |= {PARENT_TAG: self._parent.run_id} | ({"row": row} if row else {})
        shown = tags.get("row", run.tags.get("row", ""))
        return tags | {NOTE_TAG: trial_description(record, shown, folder.run_path)}

    def _is_named_here(self, run: Run, record: TrialRecord) -> bool:
        return run.tags.get(OWNER_TAG) == self._sweep.name and record.identity in self._rows

    def _name(self, record: TrialRecord) -> str:
        """What differs between runs comes first, because the server's pages cut long names."""
        row = self._rows.get(record.identity, record.identity[:8])
        split = f" split {record.split}" if len(self._sweep.config.get("splits", ())) > 1 else ""
        return f"s{record.seed}{split} {row.replace(', ', ' ')}"

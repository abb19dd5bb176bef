"""The runs of trials: finds, creates and completes them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from storage import failpoints
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.content.changes import (
    HEARD_TAG,
    NAMES_TAG,
    NOTE_TAG,
    OWNER_TAG,
    PARENT_TAG,
    WRITER_TAG,
    Changes,
    Run,
    batches,
    changes,
    kept_tags,
)
from sweeps.service.track.content.description import source_tags, trial_description
from sweeps.service.track.content.names import METRIC_NAMES
from sweeps.service.track.content.records import STATUS, TrialRecord, artifacts, label_params
from sweeps.service.track.server import ServerError
from sweeps.service.track.sweep_run import SweepRun
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.journal import milliseconds
from sweeps.service.trials.reading import TrialReading

if TYPE_CHECKING:
    from sweeps.service.track.client import Client


BEAT_SECONDS = 15.0
"""Seconds after which the writer of a running run changes its `heard_at`."""
SILENT_SECONDS = 60.0
"""Seconds without such a change, by the reader's own clock, after which another results folder takes the run over."""
ABANDONED_SECONDS = 3600.0
"""Age of `heard_at` after which the writer counts as silent at once; more than two clocks differ by."""
CLAIM_SECONDS = 1.0
"""Seconds between a claim and the look at who has the run, so that of two claims both processes see the later one."""


class SentElsewhereError(Exception):
    """Another results folder trains the same trial and sends its run."""


class TrialRuns:
    """The runs of a sweep's trials, one for each.

    Two results folders that train the same trial have one run on a server, and epochs with different times. One of the
    folders, the writer, sends them; the other one takes the run over if the writer has ended it or is silent.

    Args:
        client: the connection.
        sweep: the sweep.
        rows: trial identity -> row of the table, for the names of the runs.
        parent: the sweep's run.
        writer: name of the results folder; empty if no other folder uses the server.

    Raises (every method):
        ServerError: the server does not respond or rejects a request.
    """

    def __init__(
        self, client: Client, sweep: SweepInfo, rows: Mapping[str, str], parent: SweepRun, writer: str
    ) -> None:
        self._client, self._sweep, self._rows, self._parent, self._writer = client, sweep, rows, parent, writer
        self._heard: dict[str, tuple[str, float]] = {}
        """Run -> its newest known `heard_at`, and when this process saw or wrote it."""
        runs: dict[str, list[Run]] = {}
        for run in client.search(f"tags.`sweep.{sweep.name}` LIKE '%' AND tags.trial LIKE '%'"):
            runs.setdefault(run.tags["trial"], []).append(run)
        self.known = {trial: one for trial, (one, *others) in runs.items() if one.is_current and not others}

    def state_shown(self, identity: str) -> State | None:
        """The state of a trial whose run has ended and names it as this sweep does; None of any other."""
        run = self.known.get(identity)
        if run is None or run.status == STATUS[State.RUNNING]:
            return None
        state, row = run.tags.get("state"), run.tags.get(f"sweep.{self._sweep.name}")
        return State(state) if state in list(State) and row == (self._rows.get(identity) or "used") else None

    def beat(self, identity: str) -> None:
        """Shows other results folders that the writer of a running run lives."""
        run = self.known.get(identity)
        if self._writer and run is not None and self._age(run) > BEAT_SECONDS:
            if not self._is_ours(run):
                raise SentElsewhereError(_elsewhere(run))
            self._client.log(run.run_id, tags=self._beating(run))

    def update(self, record: TrialRecord, reading: TrialReading) -> None:
        """Brings a run up to date; a run that was deleted meanwhile is created again.

        Raises:
            SentElsewhereError: another results folder sends the run.
        """
        run = self._run_of(record)
        try:
            self._send(run, record, reading)
        except ServerError:
            if not self._client.is_gone(run.run_id):
                raise
            del self.known[record.identity]
            self._send(self._run_of(record), record, reading)

    def _is_ours(self, run: Run) -> bool:
        """Whether this results folder sends a run; takes over one that its writer has ended unfinished or left.

        Reads the run again if another folder may have changed it meanwhile.
        """
        if not self._writer or (run.tags.get(WRITER_TAG) == self._writer and self._age(run) <= BEAT_SECONDS):
            return True
        self._refresh(run)
        writer = run.tags.get(WRITER_TAG)
        if writer == self._writer:
            return True
        if writer is not None:
            is_running = run.status == STATUS[State.RUNNING]
            if run.status == STATUS[State.FINISHED] or (is_running and not self._is_silent(run)):
                return False
        if writer is None:  # sent by an earlier version
            self._client.log(run.run_id, tags={WRITER_TAG: self._writer})
        else:
            self._client.log(run.run_id, tags={WRITER_TAG: self._writer, **self._beating(run)})
            time.sleep(CLAIM_SECONDS)
        self._refresh(run)
        return run.tags.get(WRITER_TAG) == self._writer

    def _refresh(self, run: Run) -> None:
        now = self._client.get_run(run.run_id)
        run.status, run.name, run.tags = now.status, now.name, now.tags
        run.params, run.has_data = now.params, now.has_data
        self._note(run)

    def _note(self, run: Run) -> None:
        """Remembers when `heard_at` of a run that was just read has changed, or that this folder sends it."""
        heard = run.tags.get(HEARD_TAG, "")
        if self._heard.get(run.run_id, ("", 0.0))[0] != heard or run.tags.get(WRITER_TAG) == self._writer:
            self._heard[run.run_id] = heard, time.monotonic()

    def _age(self, run: Run) -> float:
        """Seconds since `heard_at` of a run was seen to change."""
        return time.monotonic() - self._heard.get(run.run_id, ("", float("-inf")))[1]

    def _is_silent(self, run: Run) -> bool:
        heard = run.tags.get(HEARD_TAG, "0")
        written = int(heard) / 1000 if heard.isdecimal() else 0.0
        return self._age(run) > SILENT_SECONDS or time.time() - written > ABANDONED_SECONDS

    def _beating(self, run: Run) -> dict[str, str]:
        """The tag that shows that the writer lives."""
        heard = _now()
        self._heard[run.run_id] = heard, time.monotonic()
        return {HEARD_TAG: heard}

    def _send(self, run: Run, record: TrialRecord, reading: TrialReading) -> None:
        """Sends parameters, values and tags, then the dataset and the artifacts, and last the status, which marks them.

        A finished run does not change while the same trial is trained in another results folder.
        """
        if run.status == STATUS[State.FINISHED] and record.state is not State.FINISHED:
            return
        if not self._is_ours(run):
            if run.status != STATUS[State.FINISHED]:
                raise SentElsewhereError(_elsewhere(run))
            rest = replace(record, params={}, tags={}, curves=(), scores=(), last_step=0)
            self._log(run, changes(run, rest, self._used(record)))
            return
        if run.tags.get(OWNER_TAG) == self._sweep.name:
            labels = self._sweep.labels.get(self._rows.get(record.identity, ""), {})
            record = replace(record, params={**record.params, **label_params(labels, record.params)})
        tags = self._tags(run, record, reading.folder)
        if self._writer and record.state is State.RUNNING:
            tags |= self._beating(run)
        change = changes(run, record, tags)
        self._log(run, change)
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

    def _log(self, run: Run, change: Changes) -> None:
        for points, params, tags in batches(change):
            self._client.log(run.run_id, points, params, tags)
            failpoints.reach("sweeps.tracking.batch")
        run.params |= set(change.params)
        run.tags |= change.tags

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
                if self._writer:
                    tags |= {WRITER_TAG: self._writer}
                    tags |= {HEARD_TAG: _now()} if record.state is State.RUNNING else {}
                self._client.create_run(self._name(record), tags, record.started)
                failpoints.reach("sweeps.tracking.created")
                runs = self._client.search(condition)
            ordered = sorted(runs, key=lambda run: (not run.is_current, run.run_id))
            self.known[identity] = ordered[0]
            self._note(ordered[0])
            for other in ordered[1:]:
                if other.status == STATUS[State.RUNNING]:
                    self._client.end(other.run_id, "KILLED")
                self._client.delete_run(other.run_id)
        return self.known[identity]

    def _tags(self, run: Run, record: TrialRecord, folder: TrialFolder) -> dict[str, str]:
        """The tags that this sweep sets; parent and row are set by the sweep that trained the trial."""
        row, tags = self._rows.get(record.identity, ""), self._used(record)
        if run.tags.get(OWNER_TAG) == self._sweep.name:
            tags |= {PARENT_TAG: self._parent.run_id} | ({"row": row} if row else {})
        shown = tags.get("row", run.tags.get("row", ""))
        return tags | {NOTE_TAG: trial_description(record, shown, folder.run_path)}

    def _used(self, record: TrialRecord) -> dict[str, str]:
        """The tag that shows that this sweep uses a trial, and in which row."""
        return {f"sweep.{self._sweep.name}": self._rows.get(record.identity) or "used"}

    def _is_named_here(self, run: Run, record: TrialRecord) -> bool:
        return run.tags.get(OWNER_TAG) == self._sweep.name and record.identity in self._rows

    def _name(self, record: TrialRecord) -> str:
        """What differs between runs comes first, because the server's pages cut long names."""
        row = self._rows.get(record.identity, record.identity[:8])
        split = f" split {record.split}" if len(self._sweep.config.get("splits", ())) > 1 else ""
        return f"s{record.seed}{split} {row.replace(', ', ' ')}"


def _now() -> str:
    return str(milliseconds())


def _elsewhere(run: Run) -> str:
    return f"another results folder trains this trial and sends its run {run.run_id}"

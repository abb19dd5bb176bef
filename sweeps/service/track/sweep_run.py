"""The run of a sweep, the parent of its trials' runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.config import flatten
from sweeps.service.plan.sweep_folder import Outcome, SweepInfo
from sweeps.service.text import param_text
from sweeps.service.track.content.changes import NOTE_TAG, PARENT_TAG, WRITER_TAG, Run
from sweeps.service.track.content.description import description, source_tags
from sweeps.service.track.content.names import safe_name
from sweeps.service.track.content.records import Point
from sweeps.service.trials.folder import State

if TYPE_CHECKING:
    from sweeps.service.track.client import Client

INCOMPLETE_STATES = {State.MISSING, State.RUNNING, State.LOST, State.STOPPED}
"""A sweep with a trial in one of these states is not finished."""


class SweepRun:
    """A sweep's run.

    Args:
        client: the connection.
        sweep: the sweep.
        rows: trial identity -> row of the table.
        writer: name of the results folder; empty if no other folder uses the server.

    Raises (every method):
        ServerError: the server does not respond or rejects a request.
    """

    def __init__(self, client: Client, sweep: SweepInfo, rows: Mapping[str, str], writer: str) -> None:
        self._client, self._sweep, self._rows, self._writer = client, sweep, rows, writer
        self._run = Run(run_id="")
        self.find()

    @property
    def run_id(self) -> str:
        """MLflow's identifier of the run."""
        return self._run.run_id

    def is_gone(self) -> bool:
        """Whether the run was deleted."""
        return self._client.is_gone(self.run_id)

    def close(self) -> None:
        """Ends the run as killed, unless `finish` has ended it."""
        if self._run.status == "RUNNING":
            self._client.end(self.run_id, "KILLED")
            self._run.status = "KILLED"

    def find(self) -> None:
        """Finds or creates the run, and sets it to running.

        The run of a sweep of the same name in another results folder is taken over unless it is running.
        """
        writer = {WRITER_TAG: self._writer} if self._writer else {}
        runs = [
            run
            for run in self._client.search(f"tags.sweep = '{self._sweep.name}'")
            if run.tags.get(WRITER_TAG, self._writer) == self._writer or run.status != "RUNNING"
        ]
        if runs:
            self._run = min(runs, key=lambda run: (run.tags.get(WRITER_TAG) != self._writer, run.run_id))
        else:
            tags = {"sweep": self._sweep.name, **source_tags(self._sweep.command), **writer}
            self._run = self._client.create_run(self._sweep.name, tags)
        tags = {NOTE_TAG: description(self._sweep, {}), **self._parent_tags(), **writer}
        self._client.log(self._run.run_id, tags=tags)
        if self._run.status != "RUNNING":
            self._client.update(self._run.run_id, status="RUNNING")
            self._run.status = "RUNNING"

    def _parent_tags(self) -> dict[str, str]:
        """The tag that puts the run under that of another sweep, such as the last step of a search under the search."""
        within = self._sweep.within
        runs = self._client.search(f"tags.sweep = '{within}'") if within else []
        own = [run.run_id for run in runs if run.tags.get(WRITER_TAG, self._writer) == self._writer]
        return {PARENT_TAG: min(own)} if own else {}

    def finish(self, states: Counter[State], tables: Mapping[str, Path], outcome: Outcome) -> None:
        """Sends tables, description, scores of the best row and counts, and ends the parent run.

        A score is sent if the run lacks it or has another value, which becomes its next step. Parameters of a run
        cannot change: they are those of the first run of the sweep; its description has those of the last.
        """
        run_id = self._run.run_id
        for path in tables.values():
            self._client.log_files(run_id, path, "tables")
        whole = {"name": self._sweep.name, "title": self._sweep.title, "command": self._sweep.command}
        self._client.log_json(run_id, {**whole, "config": dict(self._sweep.config), "rows": self._rows}, "sweep.json")
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        now = int(1000 * time.time())
        points = []
        for name, value in outcome.metrics.items():
            last = self._client.last_point(run_id, safe_name(name))
            if last is None or last.value != value:
                points.append(Point(safe_name(name), value, now, 0 if last is None else last.step + 1))
        settings = {path: value for path, value in flatten(self._sweep.config).items() if path != "seeds"}
        params = {safe_name(path): param_text(value) for path, value in settings.items()}
        params = {name: value for name, value in params.items() if name not in self._run.params}
        notes = {NOTE_TAG: description(self._sweep, tables), "trials": counts or "none", **outcome.tags}
        self._client.log(run_id, points, params, notes)
        self._run.params |= set(params)
        self._run.status = "KILLED" if states.keys() & INCOMPLETE_STATES else "FINISHED"
        self._client.end(run_id, self._run.status)

"""Ends the runs that a killed process of this results folder has left running."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sweeps.service.spec.texts import name_problems
from sweeps.service.track.content.changes import OWNER_TAG, WRITER_TAG
from sweeps.service.trials import lease
from sweeps.service.trials.identity import is_identity
from sweeps.service.trials.results_folder import ResultsFolder

if TYPE_CHECKING:
    from sweeps.service.track.client import Client


def end_orphans(client: Client, results: ResultsFolder, writer: str, known: Collection[str]) -> None:
    """Marks the running runs of a results folder as killed, unless a process holds their trial or sweep.

    Another sweep that runs ends the runs of its trials itself, as finished for example.

    Args:
        client: the connection.
        results: the results folder.
        writer: its name on the server.
        known: identities of trials and names of sweeps whose runs the caller brings up to date itself.

    Raises:
        ServerError: the server does not respond or rejects a request.
    """
    for run in client.search(f"attributes.status = 'RUNNING' AND tags.{WRITER_TAG} = '{writer}'"):
        trial, sweep = run.tags.get("trial"), run.tags.get("sweep", run.tags.get(OWNER_TAG))
        name = trial or sweep
        if name is None or name in known:
            continue
        folders = [results.trial(trial).path] if trial and is_identity(trial) else []
        if sweep and sweep not in known and not any(name_problems("name", sweep)):
            folders.append(results.running(sweep))
        if not any(map(lease.holder, folders)):
            client.end(run.run_id, "KILLED")

"""Counts in the database of a tracking server, by SQL on MLflow's own tables."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

DUPLICATES = "select count(*) from (select 1 from metrics group by run_uuid, key, step having count(*) > 1)"
STATUSES = "select tags.value, runs.status from runs join tags using (run_uuid) where {where}"
STEPS = "select tags.value, metrics.step from metrics join tags using (run_uuid) where {where} and metrics.key = ?"
OF_TRIALS = "tags.key = 'trial' and run_uuid in (select run_uuid from runs where lifecycle_stage = 'active')"


def duplicates(database: Path) -> int:
    """Number of (run, metric, step) with more than one value."""
    with sqlite3.connect(database) as connection:
        return int(connection.execute(DUPLICATES).fetchone()[0])


def statuses(database: Path) -> Counter[str]:
    """Status -> number of runs that were not deleted, trials and sweeps."""
    with sqlite3.connect(database) as connection:
        query = "select status from runs where lifecycle_stage = 'active'"
        return Counter(status for (status,) in connection.execute(query))


def trials(database: Path) -> dict[str, list[str]]:
    """Identity -> the statuses of its runs that were not deleted."""
    found: dict[str, list[str]] = {}
    with sqlite3.connect(database) as connection:
        for identity, status in connection.execute(STATUSES.format(where=OF_TRIALS)):
            found.setdefault(identity, []).append(status)
    return found


def steps(database: Path, metric: str) -> dict[str, list[int]]:
    """Identity -> sorted steps of all values of a metric."""
    found: dict[str, list[int]] = {}
    with sqlite3.connect(database) as connection:
        for identity, step in connection.execute(STEPS.format(where=OF_TRIALS), (metric,)):
            found.setdefault(identity, []).append(step)
    return {identity: sorted(values) for identity, values in found.items()}

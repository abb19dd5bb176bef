"""The sweep's own record among the results, `RESULTS/sweeps/NAME/sweep.json`, with its tables beside it.

With it the parent runs of a tracking server can be made from nothing, as the trials' runs can from their folders.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.errors import InputError
from sweeps.service.trials.folder import write_json

FORMAT_VERSION = 1
FILE = "sweep.json"
TABLES = (".md", ".csv", ".tex", ".parquet", ".html", ".png", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """A sweep as the results remember it.

    Attributes:
        sweep: what the tracking server is told of it.
        experiment_name: MLflow's experiment.
        created: ISO time; of sweeps that share a trial, the oldest trained it.
        rows: trial identity -> the row of the table.
        tables: name -> file, of those that exist.
    """

    sweep: SweepInfo
    experiment_name: str
    created: str
    rows: Mapping[str, str]
    tables: Mapping[str, Path]


def write_sweep(results: Path, sweep: SweepInfo, experiment_name: str, rows: Mapping[str, str]) -> Path:
    """Writes or renews a sweep's record; rows of an earlier call stay, and so does the time of the first.

    Args:
        results: the folder that holds `trials/`.
        sweep: what the tracking server is told.
        experiment_name: MLflow's experiment.
        rows: trial identity -> the row of the table.

    Returns:
        The sweep's folder, where its tables belong.
    """
    folder = results / "sweeps" / sweep.name
    folder.mkdir(parents=True, exist_ok=True)
    known = _read(folder / FILE) if (folder / FILE).exists() else None
    write_json(
        folder / FILE,
        {
            "format_version": FORMAT_VERSION,
            "name": sweep.name,
            "title": sweep.title,
            "command": sweep.command,
            "config": dict(sweep.config),
            "experiment": experiment_name,
            "created": known.created if known else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "rows": {**(known.rows if known else {}), **rows},
        },
    )
    return folder


def read_sweeps(results: Path) -> list[SweepRecord]:
    """The sweeps of a results folder, the oldest first.

    Raises:
        InputError: a record is damaged or of another format version.
    """
    found = [_read(path) for path in sorted(results.glob(f"sweeps/*/{FILE}"))]
    return sorted(found, key=lambda record: (record.created, record.sweep.name))


def _read(path: Path) -> SweepRecord:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged ({error}): delete it, the same sweep writes it again") from None
    if value.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"this program reads sweeps of format version {FORMAT_VERSION}, {path} has "
            f"{value.get('format_version')!r}: use the program that wrote it"
        )
    return SweepRecord(
        sweep=SweepInfo(name=value["name"], title=value["title"], command=value["command"], config=value["config"]),
        experiment_name=value["experiment"],
        created=value["created"],
        rows=value["rows"],
        tables={file.name: file for file in sorted(path.parent.iterdir()) if file.suffix in TABLES},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepInfo:
    """What the tracking server is told of a sweep.

    Attributes:
        name: the experiment's name.
        title: its caption.
        command: the command line that was given.
        config: the base configuration with the command line's settings, and what is common to all trials; plain values.
    """

    name: str
    title: str
    command: str
    config: Mapping[str, Any]


LINKS = "runs.json"
"""Beside the plan: identity of a trial -> page of its run on the tracking server."""


def write_links(folder: Path, links: Mapping[str, str]) -> None:
    """Keeps where the runs of a sweep are shown, for pages that are made without the tracking server.

    Args:
        folder: of the sweep.
        links: identity -> address of the run's page; the sweep's own run under the empty text.
    """
    write_json(folder / LINKS, dict(links))


def read_links(folder: Path) -> dict[str, str]:
    """What `write_links` has kept; nothing where the sweep was never tracked.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / LINKS
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): delete it, the same sweep writes it again") from None

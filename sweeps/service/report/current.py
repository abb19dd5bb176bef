"""Tells whether the report of a sweep shows its trials as they are, so that it need not be written again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import sweeps.service
from mucon.errors import InputError
from sweeps.service.plan.imported import FILE as IMPORTED_FILE
from sweeps.service.plan.plan import FILE as PLAN_FILE
from sweeps.service.plan.sweep_folder import LINKS_FILE, LIVE_PAGE, read_sweep
from sweeps.service.search.points import FILE as SEARCH_FILE
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.json_files import ANY_KEY, read_json, write_json
from sweeps.service.trials.known_results import FILE as KNOWN_FILE
from sweeps.service.trials.known_results import file_facts

FILE = "report.json"
FORMAT_VERSION = 1
BESIDES = (PLAN_FILE, KNOWN_FILE, LIVE_PAGE)
"""Files that a report writes and that are not for the tracking server."""
SHAPE = {"shows": str, "files": {ANY_KEY: [int]}}


def shown(standing: Standing) -> str:
    """A digest of everything that a report depends on; empty if a part of it is not cheap to look at.

    These are the program, the sweep's directory, which the commands of a page contain, the plan, the stamps of the
    trials, the addresses of their runs, the imported rows and the record of the sweep.
    """
    plan = standing.plan
    stamps = [(key, result.stamp) for key, result in standing.results.items()]
    drawn = [part.experiment.figure for part in plan.parts]
    if not all(stamp for _, stamp in stamps) or any(one and one.kind == "segmentations" for one in drawn):
        return ""
    value = [
        _program(),
        str(plan.folder),
        plan.to_dict(),
        stamps,
        file_facts(plan.folder / LINKS_FILE),
        file_facts(plan.folder / SEARCH_FILE),
        file_facts(plan.folder / IMPORTED_FILE),
        _first_run(plan.folder),
    ]
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def read_current(folder: Path, shows: str) -> dict[str, Path] | None:
    """File name -> path of the report that shows a digest; None unless it is there and unchanged."""
    try:
        value = read_json(folder / FILE, versions=(FORMAT_VERSION,), hint="", shape=SHAPE)
    except InputError:
        return None
    files = value["files"]
    if not shows or value["shows"] != shows or files != _facts(folder, files):
        return None
    return {name: folder / name for name in files if name not in BESIDES}


def write_current(folder: Path, shows: str, files: Mapping[str, Path]) -> None:
    """Records what the files of a report show."""
    facts = _facts(folder, (*BESIDES, *files))
    write_json(folder / FILE, {"format_version": FORMAT_VERSION, "shows": shows, "files": facts}, compact=True)


def _first_run(folder: Path) -> list[str | None]:
    """Time and command that a page shows; none if the record is damaged, which the command reports."""
    try:
        record = read_sweep(folder)
    except InputError:
        return []
    return [] if record is None else [record.created, record.sweep.command]


def _facts(folder: Path, names: Mapping[str, object] | tuple[str, ...]) -> dict[str, list[int]]:
    return {name: list(file_facts(folder / name) or ()) for name in names}


def _program() -> list[object]:
    """The modules that make tables and pages."""
    rooms = Path(sweeps.service.__file__).parent
    paths = sorted(path for path in rooms.rglob("*") if path.suffix in (".py", ".css", ".js"))
    return [(str(path.relative_to(rooms)), file_facts(path)) for path in paths]

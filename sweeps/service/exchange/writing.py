"""Writes a sweep as one results file: its plan, trials, metrics of epochs, and scores and predictions of videos."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from mucon.config import flatten
from mucon.errors import InputError, Problem
from mucon.videos import ScoredPart
from storage import failpoints
from storage.remote.addresses import name_of
from sweeps.service.exchange.layout import (
    CONTENT_KEY,
    DIGEST_KEY,
    ENVIRONMENT,
    FIELDS,
    FORMAT_VERSION,
    KINDS,
    RUNS,
    RUNS_TYPE,
    SETTING,
    column_of,
    digest_of,
)
from sweeps.service.plan.cells import Cell
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.parquet import cell_row
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State, check_details
from sweeps.service.trials.provenance import PACKAGES
from sweeps.service.trials.reading import TrialReading

METRICS_PER_GROUP, VIDEOS_PER_GROUP = 100_000, 2_000
"""Rows of a row group, which is all that is in memory; a video has all its segments in one row."""
TRAINING_SECONDS = "training_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A results file that was written.

    Attributes:
        rows: kind -> number of rows.
        n_bytes: size of the file.
        digest: see `layout.digest_of`.
        left_out: what it lacks because a file of the results folder is damaged or missing, one line each.
    """

    rows: Mapping[str, int]
    n_bytes: int
    digest: str
    left_out: tuple[str, ...]


def write_results(
    path: Path,
    content: Mapping[str, Any],
    sweep: str,
    tables: Mapping[str, tuple[Experiment, Sequence[Cell]]],
    results: Mapping[str, CellResult],
    reading: Callable[[str], TrialReading],
    part: ScoredPart = "test",
) -> Written:
    """Writes a results file atomically, one row group after the other; equal results give equal bytes.

    Args:
        path: target file; an existing one is replaced.
        content: what tables need besides the rows, as plain values: `plan`, `imported` and, of a search, `search`.
        sweep: name of the sweep.
        tables: name -> the table's shape and cells.
        results: state and scores of each cell, by key.
        reading: returns the content of the directory of an identity.
        part: the part of each split that is scored.

    Raises:
        InputError: the file cannot be written, or a result has a value of a wrong type.
    """
    cells = {cell.key: cell for _, of_table in tables.values() for cell in of_table}
    left_out: list[str] = []
    trials = _trials(sweep, tables, results, reading, left_out, part)
    scores = {
        f"{prediction}.{metric}": pa.float64()
        for result in results.values()
        for prediction, values in result.scores.items()
        for metric in values
        if metric != TRAINING_SECONDS
    }
    runs = {f"{name.partition('.')[0]}{RUNS}": RUNS_TYPE for name in scores}
    settings = sorted({name for row in trials for name in row if name.startswith(SETTING)})
    typed = {name: column_of([row.get(name) for row in trials]) for name in settings}
    more = {**dict(sorted(scores.items())), **dict(sorted(runs.items())), **{n: c.type for n, c in typed.items()}}
    schema = pa.schema([*FIELDS, *(pa.field(name, type) for name, type in more.items())])
    rows = dict.fromkeys(KINDS, 0)
    try:
        with _replacing(path) as file:
            with pq.ParquetWriter(
                file, schema, compression="zstd", write_statistics=["kind", "identity", "epoch"]
            ) as writer:
                tables_of = {
                    "trials": [{**_columns(trials), **typed}],
                    "metrics": _metrics(cells.values(), reading),
                    "videos": _videos(cells, results, reading, set(scores), left_out),
                }
                for kind, groups in tables_of.items():
                    rows[kind] = sum(_write_group(writer, schema, kind, columns) for columns in groups)
                file.flush()
                value = {"format_version": FORMAT_VERSION, **content, "rows": rows}
                whole = json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
                end = file.tell()
                digest = digest_of(file, end, whole)
                file.seek(end)
                writer.add_key_value_metadata({CONTENT_KEY: whole, DIGEST_KEY: digest.encode()})
            n_bytes = file.tell()
    except OSError as error:
        message = f"cannot be written ({error.strerror or error})"
        raise InputError(Problem(rule="unwritable", place=str(path), value=error.errno, message=message)) from error
    except pa.ArrowException as error:
        message = f"a result has a value of another type than its column ({error})"
        raise InputError(Problem(rule="damaged", place=sweep, message=message)) from error
    return Written(rows=rows, n_bytes=n_bytes, digest=digest, left_out=tuple(dict.fromkeys(left_out)))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """The unfinished file, which replaces the finished one at the end and is removed after an error.

    Those of writers that were killed are removed: nobody has a lock on them.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if left.suffix[1:].isdecimal():
            with contextlib.suppress(OSError), left.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
    draft = path.with_name(f".{path.name}.{uuid.uuid4().int % 10**12}")
    try:
        with draft.open("w+b") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_SH)
            yield file
            file.flush()
            os.fsync(file.fileno())
            failpoints.reach("sweeps.exchange.written")
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write_group(writer: pq.ParquetWriter, schema: pa.Schema, kind: str, columns: Mapping[str, Any]) -> int:
    """Writes rows of one kind as a row group, without values in the columns of the other kinds."""
    n_rows = len(next(iter(columns.values()), ()))
    if n_rows:
        values = {"kind": [kind] * n_rows, **columns}
        arrays = [
            pa.array(values[field.name], field.type) if field.name in values else pa.nulls(n_rows, field.type)
            for field in schema
        ]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=n_rows)
    return n_rows


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _trials(
    sweep: str,
    tables: Mapping[str, tuple[Experiment, Sequence[Cell]]],
    results: Mapping[str, CellResult],
    reading: Callable[[str], TrialReading],
    left_out: list[str],
    part: ScoredPart,
) -> list[dict[str, Any]]:
    """A row for each cell of each table."""
    facts: dict[str, dict[str, Any]] = {}
    rows = []
    for name, (shape, cells) in tables.items():
        for cell in cells:
            result = results[cell.key]
            if cell.identity not in facts:
                found = reading(cell.identity)
                facts[cell.identity] = {} if found.damage else _facts(found)
                left_out += [found.damage] if found.damage else []
            undefined = [
                {"score": f"{prediction}.{metric}", "videos": count}
                for prediction, counts in result.undefined.items()
                for metric, count in counts.items()
                if count
            ]
            more = {"test_videos": result.n_videos, "undefined": undefined}
            rows.append({**cell_row(sweep, name, shape, cell, result, part), **more, **facts[cell.identity]})
    return rows


def _facts(reading: TrialReading) -> dict[str, Any]:
    """Settings, provenance and times of a trial; none before its start."""
    if not reading.exists:
        return {}
    statuses = [record for record in reading.records if record["kind"] == "status"]
    environment, training = reading.training_environment or reading.environment, reading.training or {}
    packages = environment.get("packages")
    versions = packages if isinstance(packages, dict) else {}
    has_ended = bool(statuses) and statuses[-1]["status"] != State.RUNNING
    return {
        "epochs": reading.n_epochs,
        "started": statuses[0]["timestamp"] if statuses else None,
        "ended": statuses[-1]["timestamp"] if has_ended else None,
        "weights_sha256": training.get("weights_sha256"),
        "git_changed": None if environment.get("git_changed") is None else bool(environment["git_changed"]),
        **{name: _text(environment.get(name)) for name in ENVIRONMENT},
        **{f"version.{name}": _text(versions.get(name)) for name in PACKAGES},
        **{
            f"{SETTING}{path}": _without_home(value)
            for path, value in flatten(reading.trial["config"]).items()
            if path != "seed"
        },
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def shared_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as a results file has it: with the name of the store instead of its place, and settings without home."""
    tables = [
        {
            **table,
            "rows": [{**row, "settings": _without_home(row["settings"])} for row in table["rows"]],
            "settings": _without_home(table["settings"]),
        }
        for table in plan["tables"]
    ]
    return {**plan, "store": name_of(plan["store"]), "tables": tables}


def _without_home(value: Any) -> Any:
    """Plain values in which the home folder, whose name is often a person's, is `~`."""
    home = str(Path.home())
    if isinstance(value, str):
        return f"~{value.removeprefix(home)}" if value == home or value.startswith(f"{home}/") else value
    if isinstance(value, Mapping):
        return {key: _without_home(one) for key, one in value.items()}
    return [_without_home(one) for one in value] if isinstance(value, list | tuple) else value


def _metrics(cells: Iterable[Cell], reading: Callable[[str], TrialReading]) -> Iterator[dict[str, list[Any]]]:
    """The metrics of the epochs of each training, in groups."""
    names = ("identity", "epoch", "time", "name", "value")
    rows: list[tuple[Any, ...]] = []
    for identity in dict.fromkeys(cell.identity for cell in cells):
        found = reading(identity)
        for record in () if found.damage else found.epochs:
            place = (identity, record["step"], record["timestamp"])
            rows += [(*place, name, value) for name, value in record["metrics"].items()]
        if len(rows) >= METRICS_PER_GROUP:
            yield dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
            rows = []
    if rows:
        yield dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _videos(
    cells: Mapping[str, Cell],
    results: Mapping[str, CellResult],
    reading: Callable[[str], TrialReading],
    scores: Collection[str],
    left_out: list[str],
) -> Iterator[dict[str, list[Any]]]:
    """The scores and predictions of the test videos of each evaluation, in groups."""
    rows: list[dict[str, Any]] = []
    for key, cell in cells.items():
        if not results[key].is_finished:
            continue
        found = reading(cell.identity)
        try:
            result = found.result(cell.evaluation) or {"per_video": [], "scores": {}}
            check_details(found.folder.result_path(cell.evaluation), result)
            segments = {name: found.segments(cell.evaluation, name) for name in result["scores"]}
        except InputError as error:
            left_out.append(error.line)
            continue
        missing = [name for name, of_videos in segments.items() if of_videos is None]
        left_out += [f"{cell}: no predictions {', '.join(missing)} (trials/{cell.identity})"] if missing else []
        for video in result["per_video"]:
            rows.append(
                {
                    "identity": cell.identity,
                    "evaluation": cell.evaluation,
                    "task": cell.variant.task,
                    "split": cell.split,
                    "seed": cell.seed,
                    "video": video["id"],
                    "n_frames": video.get("n_frames"),
                    **{
                        name: video[prediction].get(metric)
                        for name in scores
                        for prediction, _, metric in [name.partition(".")]
                        if prediction in video
                    },
                    **{
                        f"{name}{RUNS}": _runs(of_videos[video["id"]])
                        for name, of_videos in segments.items()
                        if of_videos and video["id"] in of_videos
                    },
                }
            )
        if len(rows) >= VIDEOS_PER_GROUP:
            yield _columns(rows)
            rows = []
    yield _columns(rows)


def _runs(segmentation: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The segments of a video, each with its first frame."""
    starts = accumulate(segmentation["lengths"], initial=0)
    return [
        {"action": action, "start": start, "length": length}
        for action, start, length in zip(segmentation["transcript"], starts, segmentation["lengths"], strict=False)
    ]

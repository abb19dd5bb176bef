"""Reads a results file, which may come from anybody: everything that tables need of it is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mucon.errors import InputError, Problem
from sweeps.service.exchange.layout import (
    CONTENT_KEY,
    COUNTS_TYPE,
    DIGEST_KEY,
    FORMAT_VERSION,
    KINDS,
    RUNS,
    digest_of,
    rows_end,
)
from sweeps.service.plan.imported import ImportedRow, imported_rows
from sweeps.service.plan.plan import SHAPE as PLAN_SHAPE
from sweeps.service.search.points import SearchHistory
from sweeps.service.spec.columns import Prediction
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.json_files import ANY_KEY, damaged, misfit
from sweeps.service.trials.reading import ACCURACY, FRAME_ACCURACY, LOSS

HINT = "write it again with `mucon-sweeps export-results`"
SHAPE = {"format_version": int, "plan": PLAN_SHAPE, "imported": [{}], "rows": {ANY_KEY: int}}
TRIALS = {
    **dict.fromkeys(("identity", "evaluation", "state", "reason"), pa.string()),
    **{"training_seconds": pa.float64(), "test_videos": pa.int64(), "undefined": COUNTS_TYPE},
}
"""Columns of the trials, besides their scores, that tables need."""
METRICS = {"identity": pa.string(), "epoch": pa.int64(), "name": pa.string(), "value": pa.float64()}
"""Columns of the metrics that curves need."""
Curves = dict[str, tuple[tuple[int, float], ...]]
"""Metric -> (epoch, value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsFile:
    """What tables and figures need of a results file.

    Attributes:
        path: the file.
        plan: the plan of the sweep, as plain values of the plan's shape.
        imported: rows with results from elsewhere.
        results: state and scores of each cell, by key.
        curves: identity -> training loss and training accuracy.
        search: the points of a search; None for another sweep.
    """

    path: Path
    plan: Mapping[str, Any]
    imported: tuple[ImportedRow, ...]
    results: Mapping[str, CellResult]
    curves: Mapping[str, Curves]
    search: SearchHistory | None


def read_results_file(path: Path, *, with_curves: bool = False) -> ResultsFile:
    """Reads and checks a results file.

    Args:
        path: the file.
        with_curves: whether to read the curves.

    Raises:
        InputError: the file is missing, damaged, of another format version, or no results file.
    """
    try:
        with pq.ParquetFile(path) as file:
            content = _content(path, file.metadata.metadata or {})
            groups = _groups(path, file, content["rows"])
            scores = [name for name in file.schema_arrow.names if name.partition(".")[0] in get_args(Prediction)]
            columns = {**TRIALS, **dict.fromkeys((name for name in scores if not name.endswith(RUNS)), pa.float64())}
            return ResultsFile(
                path=path,
                plan=content["plan"],
                imported=imported_rows(content["imported"], path),
                results=_results(path, _read(path, file, groups["trials"], columns).to_pylist()),
                curves=_curves(path, file, groups["metrics"]) if with_curves else {},
                search=_search(path, content),
            )
    except FileNotFoundError:
        raise InputError(Problem(rule="missing", place=str(path), message="no such file")) from None
    except OSError as error:
        message = f"cannot be read ({error.strerror or error})"
        raise InputError(Problem(rule="unreadable", place=str(path), value=error.errno, message=message)) from None
    except (pa.ArrowException, AttributeError, MemoryError, TypeError, UnicodeDecodeError) as error:
        raise damaged(path, " ".join(str(error).split()), HINT) from None


def _content(path: Path, metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The document about the rows, after the check of the digest."""
    if CONTENT_KEY not in metadata:
        message = "no results file: its metadata lack mucon.results"
        raise InputError(Problem(rule="type", place=str(path), value="metadata", message=message, hint=HINT))
    whole = metadata[CONTENT_KEY]
    try:
        value = json.loads(whole)
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error), HINT) from None
    version = value.get("format_version") if isinstance(value, dict) else None
    if type(version) is int and version != FORMAT_VERSION:
        expected = f"format version {FORMAT_VERSION}"
        raise InputError(Problem(rule="version", place=str(path), value=version, expected=expected))
    with path.open("rb") as file:
        digest = digest_of(file, rows_end(path), whole)
    if metadata.get(DIGEST_KEY) != digest.encode():
        raise damaged(path, "its content does not have the recorded digest", HINT)
    if wrong := misfit(value, SHAPE):
        raise damaged(path, wrong, HINT)
    content: dict[str, Any] = value
    return content


def _search(path: Path, content: Mapping[str, Any]) -> SearchHistory | None:
    try:
        return SearchHistory.from_dict(content["search"]) if "search" in content else None
    except ValueError as error:
        raise damaged(path, f"search: {error}", HINT) from None


def _groups(path: Path, file: pq.ParquetFile, expected: Mapping[str, int]) -> dict[str, list[int]]:
    """Kind -> its row groups; each has rows of one kind."""
    groups: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for group in range(file.num_row_groups):
        kinds = _read(path, file, [group], {"kind": pa.string()})["kind"].unique().to_pylist()
        if len(kinds) != 1 or kinds[0] not in groups:
            raise damaged(path, f"row group {group} of kinds {kinds}", HINT)
        groups[kinds[0]].append(group)
    found = {kind: sum(file.metadata.row_group(group).num_rows for group in of) for kind, of in groups.items()}
    if found != expected:
        raise damaged(path, f"expected rows {expected}, got {found}", HINT)
    return groups


def _read(path: Path, file: pq.ParquetFile, groups: list[int], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Some columns of some row groups, after a check of their types."""
    found = {name: file.schema_arrow.field(name).type for name in columns if name in file.schema_arrow.names}
    for name, type in columns.items():
        if found.get(name) != type:
            raise damaged(path, f"column {name}: expected {type}, got {found.get(name, 'none')}", HINT)
    return file.read_row_groups(groups, columns=list(columns))


def _results(path: Path, rows: list[dict[str, Any]]) -> dict[str, CellResult]:
    """State and scores of each cell, by key."""
    results = {}
    for row in rows:
        scores: dict[str, dict[str, float]] = {}
        undefined: dict[str, dict[str, int]] = {}
        for name, value in row.items():
            prediction, _, metric = name.partition(".")
            if metric and value is not None:
                scores.setdefault(prediction, {})[metric] = value
        for of_prediction in scores.values():
            if row["training_seconds"] is not None:
                of_prediction["training_seconds"] = row["training_seconds"]
        for one in row["undefined"] or ():
            prediction, _, metric = one["score"].partition(".")
            undefined.setdefault(prediction, {})[metric] = one["videos"]
        key, state = f"{row['identity']}-{row['evaluation']}", row["state"]
        whole = all(math.isfinite(value) for values in scores.values() for value in values.values())
        if state not in list(State) or not whole:
            raise damaged(path, f"trial {key!a}: state {state!a} or its scores", HINT)
        results[key] = CellResult(State(state), row["reason"], scores, undefined, row["test_videos"] or 0)
    return results


def _curves(path: Path, file: pq.ParquetFile, groups: list[int]) -> dict[str, Curves]:
    """Identity -> the curves that figures show."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for group in groups:
        rows = _read(path, file, [group], METRICS)
        rows = rows.filter(pc.is_in(rows["name"], pa.array([LOSS, ACCURACY, FRAME_ACCURACY])))
        for identity, epoch, name, value in zip(*(rows[column].to_pylist() for column in METRICS), strict=True):
            if value is not None:
                found.setdefault(identity, {}).setdefault(name, {})[epoch] = value
    return {
        identity: {
            name: tuple(sorted(points.items()))
            for name, points in ((LOSS, of.get(LOSS)), (ACCURACY, of.get(FRAME_ACCURACY, {}) | of.get(ACCURACY, {})))
            if points
        }
        for identity, of in found.items()
    }

"""CSV files of annotations."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from storage.errors import Problem
from storage.names import normal


def rows_of(path: Path, columns: Sequence[str], problems: list[Problem]) -> list[tuple[str, dict[str, str]]]:
    """Reads a CSV file: place and stripped cells in `normal` form of each complete row.

    Args:
        path: the file, in UTF-8.
        columns: required columns.
        problems: receives the problems of the file.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            rows = [(reader.line_num, row) for row in reader if not _blank(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        message = f"cannot read a CSV file in UTF-8: {error}"
        problems.append(Problem(rule="unreadable", place=str(path), message=message))
        return []
    hint = "separate columns by commas" if len(names) == 1 else ""
    if found := column_problems(f"{path}:1", names, columns, hint):
        problems += found
        return []
    complete = []
    for line, row in rows:
        place = f"{path}:{line}"
        if None in row or None in row.values():
            n_cells = len(names) + len(row.get(None) or ()) - sum(cell is None for cell in row.values())
            expected = f"{len(names)} cells (one per column)"
            problems.append(Problem(rule="shape", place=place, value=n_cells, expected=expected))
        else:
            complete.append((place, {name: normal(cell).strip() for name, cell in row.items()}))
    return complete


def column_problems(place: str, names: Sequence[str], columns: Sequence[str], hint: str = "") -> list[Problem]:
    """Reports columns of a table that occur twice, and required columns that are missing.

    Args:
        place: file and line of the names.
        names: columns of the table.
        columns: required columns.
        hint: why columns may be missing.
    """
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated:
        message = f"duplicate columns: {', '.join(repeated)}"
        return [Problem(rule="duplicate", place=place, value=repeated, message=message)]
    missing = [name for name in columns if name not in names]
    if not missing:
        return []
    message = f"missing columns: {', '.join(missing)}"
    return [Problem(rule="missing", place=place, value=missing, message=message, hint=hint)]


def _blank(row: Mapping[str | None, str | list[str] | None]) -> bool:
    """Returns whether a row is a line of blanks, which is read like an empty line."""
    first, *others = row.values()
    return isinstance(first, str) and not first.strip() and bool(others) and set(others) == {None}


def whole(text: str, name: str, place: str, problems: list[Problem]) -> int | None:
    """A whole number of at least 1; otherwise appends a problem."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        expected = "a whole number of at least 1"
        problems.append(Problem(rule="type", place=f"{place}, {name}", value=text, expected=expected))
        return None
    return int(text)

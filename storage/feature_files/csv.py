"""`.csv` files: one line of numbers per frame, with an optional line of column names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, StoreError, condensed, counted
from storage.feature_files.content import Header, check_begin
from storage.layouts.text import plain_lines

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
_FEWEST_COLUMN_NUMBERS = 3
"""A first line `0,1,2` is a header with the numbers of the columns; `0,1` may be a frame."""
_FEWEST_ROW_NUMBERS = 5
"""A first column that counts the rows from 0 or 1 is no feature; in fewer rows it may be one."""
_HINT = "remove column numbers and row numbers; pandas omits them with to_csv(header=False, index=False)"


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype of the numbers; see `array`."""
    read = array(path, key)
    return Header(read.shape, read.dtype)


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Reads the numbers as float64.

    Cells are separated by commas, or by semicolons or blanks in a file whose first line has no comma.

    Args:
        path: the file.
        key: not used; the file contains one array without a name.

    Raises:
        StoreError: the file cannot be read, or has empty lines, cells that are not numbers (by line and column), or
            lines with different numbers of cells.
    """
    check_begin(path)
    lines = plain_lines(path)
    if not any(lines):
        raise StoreError(Problem(rule="missing", place=str(path), message="empty file, expected a frame per line"))
    delimiter = _delimiter(path, lines[0])
    skipped = int(_has_names(path, _cells(lines[0], delimiter)))
    body = lines[skipped:]
    try:
        if not body or not all(body):
            raise ValueError("empty lines")
        values = np.loadtxt(body, delimiter=delimiter, comments=None, quotechar='"', ndmin=2, dtype=np.float64)
    except ValueError as error:
        raise StoreError(_problems(path, body, delimiter, skipped) or _unread(path, error)) from error
    if _counts_rows(values):
        message, place = f"the numbers of the rows, from {values[0, 0]:.0f}, not a feature", f"{path}, column 1"
        raise StoreError(Problem(rule="type", place=place, value=float(values[0, 0]), message=message, hint=_HINT))
    return values


def _counts_rows(values: NDArray[np.float64]) -> bool:
    """Returns whether the first of several columns counts the rows from 0 or 1."""
    rows, columns = values.shape
    if columns < 2 or rows < _FEWEST_ROW_NUMBERS or values[0, 0] not in (0, 1):
        return False
    return np.array_equal(values[:, 0] - values[0, 0], np.arange(rows))


def _delimiter(path: Path, line: str) -> str | None:
    """Returns the delimiter that the first line shows; None for blanks."""
    if "," in line and ";" in line:
        message = "commas and semicolons, of which one must be the only delimiter"
        hint = "write decimal points, and one delimiter"
        raise StoreError(Problem(rule="type", place=f"{path}:1", value=line[:40], message=message, hint=hint))
    return next((delimiter for delimiter in ",;" if delimiter in line), None)


def _cells(line: str, delimiter: str | None) -> list[str]:
    return [cell.strip().strip('"').strip() for cell in line.split(delimiter)]


def _has_names(path: Path, cells: Sequence[str]) -> bool:
    """Returns whether the first line of a file contains the names of columns, and refuses what an index shows."""
    if not cells[0] and len(cells) > 1:
        message = "an empty cell, as above a column of row numbers"
        raise StoreError(Problem(rule="type", place=f"{path}:1, column 1", value="", message=message, hint=_HINT))
    if len(cells) >= _FEWEST_COLUMN_NUMBERS and cells == [str(column) for column in range(len(cells))]:
        message = f"the numbers of the columns, 0 to {len(cells) - 1}, not a frame"
        raise StoreError(Problem(rule="type", place=f"{path}:1", value=cells[0], message=message, hint=_HINT))
    return not any(map(_NUMBER.fullmatch, cells))


def _problems(path: Path, body: Sequence[str], delimiter: str | None, skipped: int) -> list[Problem]:
    """Finds every line and cell that is not as expected."""
    if not body:
        return [Problem(rule="missing", place=f"{path}:2", expected="a frame per line below the names of the columns")]
    problems = []
    columns = len(_cells(body[0], delimiter))
    for number, line in enumerate(body, 1 + skipped):
        cells = _cells(line, delimiter)
        if len(cells) != columns or not line:
            n_cells = len(cells) if line else 0
            expected = f"{counted(columns, 'number')} as in the first frame"
            problems.append(Problem(rule="shape", place=f"{path}:{number}", value=n_cells, expected=expected))
            continue
        problems += [
            Problem(rule="type", place=f"{path}:{number}, column {column}", value=cell, expected="a number")
            for column, cell in enumerate(cells, 1)
            if not _NUMBER.fullmatch(cell)
        ]
    return condensed(problems)


def _unread(path: Path, error: ValueError) -> Problem:
    return Problem(rule="unreadable", place=str(path), message=f"cannot read the numbers ({error})")

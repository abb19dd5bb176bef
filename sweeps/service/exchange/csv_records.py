"""Scores from a CSV file: a line per row, split and seed, with the labels of the row and a column per metric."""

from __future__ import annotations

import csv
import hashlib
import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mucon.errors import InputError, Problem, Rule
from sweeps.service.exchange.outside import SCALES, Record, is_share, score_named, stored_value
from sweeps.service.plan.imported import Source

SPLIT, SEED, SCALE = "split", "seed", "scale"
"""Columns besides labels and metrics; each may be absent."""


def read_csv(path: Path, label_titles: Sequence[str], scale: str | None) -> tuple[list[Record], Source]:
    """The records of a CSV file in UTF-8 with a head; empty fields are absent values.

    Args:
        path: the file.
        label_titles: heads of the label columns of the table; a file needs the first one, or `row` in its place.
        scale: how the file states shares; None: its column `scale` says so.

    Raises:
        InputError: one problem per missing or unknown column and per wrong field, with its line.
    """
    try:
        content = path.read_bytes()
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        rows = [(lines.line_num, fields) for fields in lines if any(field.strip() for field in fields)]
    except OSError as error:
        message = f"cannot be read ({error.strerror})"
        raise InputError(Problem(rule="unreadable", place=str(path), value=error.errno, message=message)) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(Problem(rule="unreadable", place=str(path), message=f"no CSV in UTF-8: {error}")) from None
    heads = [head.strip() for head in rows[0][1]] if rows else []
    labels = [label_titles[0] if head == "row" else head for head in heads]
    metrics = _checked_heads(f"{path.name}: line {rows[0][0] if rows else 1}", labels, label_titles, scale)
    problems: list[Problem] = []
    records: list[Record] = []
    stated: set[str] = set()
    for number, fields in rows[1:]:
        place = f"{path.name}: line {number}"
        if len(fields) != len(heads):
            expected = f"{len(heads)} fields"
            problems.append(Problem(rule="shape", place=place, value=len(fields), expected=expected))
            continue
        try:
            texts = dict(zip(labels, map(str.strip, fields), strict=True))
            records.append(_record(place, texts, label_titles, metrics, scale))
            stated |= {scale or texts.get(SCALE, "")} - {""}
        except InputError as error:
            problems += error.problems
    if not problems and not records:
        problems.append(Problem(rule="missing", place=str(path), message="no line with values"))
    if problems:
        raise InputError(problems)
    return records, Source(
        kind="csv",
        name=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        scale=" and ".join(sorted(stated)),
    )


def _checked_heads(
    place: str, heads: Sequence[str], label_titles: Sequence[str], scale: str | None
) -> dict[str, tuple[str, str]]:
    """Head -> prediction and metric of each column with scores."""
    problems: list[Problem] = []
    metrics: dict[str, tuple[str, str]] = {}
    for head in dict.fromkeys(heads):
        if heads.count(head) > 1:
            problems.append(Problem(rule="duplicate", place=place, value=head, message=f"duplicate column {head!r}"))
        elif head not in (*label_titles, SPLIT, SEED, SCALE):
            try:
                metrics[head] = score_named(head, place, (*label_titles, SPLIT, SEED, SCALE))
            except InputError as error:
                problems += error.problems
    if label_titles[0] not in heads:
        message = f"no column {label_titles[0]!r} (or 'row') with the labels of the rows"
        problems.append(Problem(rule="missing", place=place, value=label_titles[0], message=message))
    if not metrics and not problems:
        problems.append(Problem(rule="missing", place=place, value="metric", message="no column with a metric"))
    if (scale is None) == (SCALE not in heads) and any(is_share(metric) for _, metric in metrics.values()):
        what = "neither" if scale is None else "both"
        message = f"{what} --scale {'nor' if scale is None else 'and'} a column {SCALE!r} states percent or fraction"
        rule: Rule = "missing" if scale is None else "conflict"
        problems.append(Problem(rule=rule, place=place, value=SCALE, message=message))
    if problems:
        raise InputError(problems)
    return metrics


def _record(
    place: str,
    texts: Mapping[str, str],
    label_titles: Sequence[str],
    metrics: Mapping[str, tuple[str, str]],
    scale: str | None,
) -> Record:
    """The record of a line.

    Raises:
        InputError: one problem per wrong field.
    """
    problems: list[Problem] = []
    stated = scale or texts.get(SCALE, "")
    scores: dict[tuple[str, str], float] = {}
    seed = _number(texts.get(SEED, ""), int, f"{place}: {SEED}", problems)
    for head, (prediction, metric) in metrics.items():
        where = f"{place}: {head}"
        value = _number(texts[head], float, where, problems)
        if value is None:
            continue
        if is_share(metric) and stated not in SCALES:
            expected = " or ".join(SCALES)
            problems.append(Problem(rule="type", place=f"{place}: {SCALE}", value=stated, expected=expected))
            break
        try:
            scores[prediction, metric] = stored_value(value, metric, stated or "fraction", where)
        except InputError as error:
            problems += error.problems
    if not scores and not problems:
        problems.append(Problem(rule="missing", place=place, message="no value"))
    if problems:
        raise InputError(problems)
    return Record(
        place=place,
        labels=tuple(texts.get(title, "") for title in label_titles),
        split=texts.get(SPLIT) or None,
        seed=None if seed is None else int(seed),
        scores=scores,
    )


def _number(text: str, kind: type[int] | type[float], place: str, problems: list[Problem]) -> float | None:
    """The number in a field; None for an empty or a wrong one, whose problem is added."""
    try:
        return kind(text.replace("_", "?")) if text else None
    except ValueError:
        expected = "a whole number" if kind is int else "a number with a point"
        problems.append(Problem(rule="type", place=place, value=text, expected=expected))
        return None

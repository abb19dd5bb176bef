"""The figures of a sweep: what each shows, drawn again only when that or the code that draws it has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon import plots
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.report.figures import plots as figures
from sweeps.service.report.figures import segmentations as figure_segmentations
from sweeps.service.report.figures import style as figure_style
from sweeps.service.report.figures import training as figure_training
from sweeps.service.report.figures.plots import Data, Points
from sweeps.service.report.figures.training import Curve
from sweeps.service.report.trainings import TrialFacts
from sweeps.service.spec.columns import Column
from sweeps.service.spec.figure import Figure
from sweeps.service.stats.comparisons import seed_means
from sweeps.service.tables.table import Table, seed_values
from sweeps.service.trials.cell_results import Known
from sweeps.service.trials.folder import write_json

DIGESTS = "figures.json"
"""What the figures beside it show, as digests."""


_KINDS: dict[str, Callable[[Data], Any]] = {"bars": figures.bars, "curve": figures.curve, "scatter": figures.scatter}


_UNITS = {"percent": (100.0, " (%)"), "fraction": (1.0, ""), "seconds": (1.0, ""), "frames": (1.0, "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure before it is drawn.

    Attributes:
        name: of its files.
        title: what it shows, as its caption.
        shows: everything that the drawing depends on, as text.
        draw: makes matplotlib's figure.
        notes: what is left out, and why.
    """

    name: str
    title: str
    shows: str
    draw: Callable[[], Any]
    notes: tuple[str, ...] = ()


def figure_data(part: Part, table: Table, known: Mapping[str, Known]) -> Data:
    """What the figure of a table shows: the seeds' values of each row, as the axes show them."""
    shape = part.experiment.figure or Figure()
    y = _column(table.columns, shape.y)
    x = _column(table.columns, shape.x) if shape.kind == "scatter" else None
    rows = []
    for variant, row in zip(part.experiment.variants, table.rows, strict=False):
        cells = [cell for cell in part.cells if cell.variant is variant]
        rows.append(
            Points(
                name=row.name,
                y=_shown(cells, known, y),
                x=() if x is None else _shown(cells, known, x),
                missing=f"{row.seeds} seeds" if "of" in row.seeds else "",
            )
        )
    place = table.columns.index(y)
    scale, unit = _UNITS[y.unit]
    return Data(
        rows=tuple(rows),
        y_title=f"{y.title}{unit}",
        x_title=shape.x_title or (shape.x or ""),
        levels={
            row.name: scale * summary.mean
            for row in table.rows
            if row.kind != "row" and (summary := row.summaries[place]) is not None
        },
        top=scale if y.higher_is_better else None,
    )


def _pictures(
    part: Part, table: Table, known: Mapping[str, Known], trials: Mapping[str, TrialFacts], plan: Plan
) -> Sequence[Picture]:
    """Of a table: its own figure, and its trials' training curves."""
    shape = part.experiment.figure or Figure()
    name = part.experiment.name
    found = []
    if shape.kind == "segmentations":
        bars = figure_segmentations.segmentations(shape, part.cells, known, results=plan.results, store=plan.store)
        if bars.rows:
            shows = repr(
                [(i, n, s.transcript.tolist(), s.lengths.tolist()) for i, rs in bars.rows.items() for n, s in rs]
            )
            found.append(Picture(name=name, title=table.title, shows=shows, draw=bars.draw, notes=bars.notes))
    else:
        data = figure_data(part, table, known)
        draw = _KINDS[shape.kind]
        title = f"{table.title}: {data.y_title}"
        found.append(Picture(name=name, title=title, shows=f"{shape.kind} {data}", draw=lambda: draw(data)))
    curves = _curves(part.cells, trials)
    if any(curve.values for curve in curves):
        found.append(
            Picture(
                name=f"{name}_training",
                title=f"{table.title}: training, a line for each seed and split, in grey those of the other rows",
                shows=repr(curves),
                draw=lambda: figure_training.training(curves),
            )
        )
    return found


def _curves(cells: Sequence[Cell], trials: Mapping[str, TrialFacts]) -> list[Curve]:
    """A curve for each training; rows that share it are named together."""
    rows: dict[str, list[str]] = {}
    first: dict[str, Cell] = {}
    for cell in cells:
        names = rows.setdefault(cell.identity, [])
        names += [cell.variant.name] if cell.variant.name not in names else []
        first.setdefault(cell.identity, cell)
    return [
        Curve(row=" / ".join(rows[identity]), seed=cell.seed, split=cell.split, values=trials[identity].curves)
        for identity, cell in first.items()
        if trials[identity].curves.get(figure_training.LOSS)
    ]


def _draw(pictures: Sequence[Picture], folder: Path) -> dict[str, Path]:
    """Draws those that are not there as they are now; file name -> path of all."""
    path = folder / DIGESTS
    before: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    code = _code()
    now = {picture.name: hashlib.sha256(code + picture.shows.encode()).hexdigest() for picture in pictures}
    paths: dict[str, Path] = {}
    for picture in pictures:
        files = {f"{picture.name}.{suffix}": folder / f"{picture.name}.{suffix}" for suffix in figure_style.SUFFIXES}
        if before.get(picture.name) != now[picture.name] or not all(file.exists() for file in files.values()):
            with figure_style.style():
                figure_style.save(picture.draw(), folder, picture.name)
        paths |= files
    if before != now:
        write_json(path, now)
    return paths


def _code() -> bytes:
    """A digest of the modules that draw."""
    modules = (plots, figures, figure_style, figure_training, figure_segmentations)
    files = [Path(module.__file__) for module in modules if module.__file__]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _column(columns: Sequence[Column], title: str | None) -> Column:
    return next((column for column in columns if column.title == title), columns[0])


def _shown(cells: Sequence[Cell], known: Mapping[str, Known], column: Column) -> tuple[float, ...]:
    """The seeds' values in the unit that is shown."""
    values = seed_values(cells, known, column)
    scale, _ = _UNITS[column.unit]
    return tuple(scale * value for value in seed_means(values, sorted({split for split, _ in values})).values())

"""Makes the figures of a sweep; a figure is redrawn only if its data or the drawing code has changed."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mucon import plots
from mucon.errors import InputError
from mucon.metrics.catalogue import SCALES, Unit
from storage.remote.addresses import name_of
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.report.figures import plots as figures
from sweeps.service.report.figures import style as figure_style
from sweeps.service.report.figures import training as figure_training
from sweeps.service.report.figures.numbers import numbers_of_setting
from sweeps.service.report.figures.picture import Picture
from sweeps.service.report.figures.plots import Data, Points
from sweeps.service.report.figures.segmentations import segmentations
from sweeps.service.report.figures.training import Curve
from sweeps.service.report.trainings import Training
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.stats.comparisons import seed_means
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.values import cells_by_row, seed_values
from sweeps.service.trials.json_files import ANY_KEY, read_json, write_json
from sweeps.service.trials.reading import LOSS

DIGESTS = "figures.json"
"""File with a digest of each figure's data and drawing code."""

_SIGNS: dict[Unit, str] = {"percent": "%", "fraction": "0 to 1", "frames": "frames", "seconds": "s", "number": ""}
_KINDS: dict[str, Callable[[Data], Any]] = {"bars": figures.bars, "curve": figures.curve, "scatter": figures.scatter}


def pictures_of(part: Part, standing: Standing, trainings: Mapping[str, Training]) -> list[Picture]:
    """The figure of a table and the training curves of its trials.

    Args:
        part: part of the plan with the table.
        standing: state of the sweep.
        trainings: trainings by identity.

    Raises:
        InputError: a figure names a recording that is not scored.
    """
    shape = part.experiment.figure or Figure()
    name, table = part.experiment.name, standing.table(part)
    pictures = []
    if shape.kind == "segmentations":
        bars = segmentations(part, standing, name=name, title=table.title)
        pictures += [bars] if bars is not None else []
    else:
        data = figure_data(part, standing)
        draw = _KINDS[shape.kind]
        title = f"{table.title}: {data.y_title}"
        pictures.append(Picture(name=name, title=title, shows=f"{shape.kind} {data}", draw=lambda: draw(data)))
    curves = _curves(part.cells, trainings)
    if any(curve.values for curve in curves):
        pictures.append(
            Picture(
                name=f"{name}_training",
                title=f"{table.title}: training, a panel per row; a line per trial, those of other rows in grey",
                shows=f"{about_data(standing.plan)} {curves}",
                draw=lambda: figure_training.training(curves, about_data(standing.plan)),
            )
        )
    return pictures


def figure_data(part: Part, standing: Standing) -> Data:
    """The data of a table's figure: one value per seed for each row, in the units of the axes."""
    shape = part.experiment.figure or Figure()
    table = standing.table(part)
    y = _column(table.columns, shape.y)
    x = _column(table.columns, shape.x) if shape.kind == "scatter" else None
    rows = []
    by_row = cells_by_row(part.experiment, part.cells)
    for variant, row in zip(part.experiment.variants, table.rows, strict=False):
        cells = by_row[variant.labels]
        ys, lost = _values(cells, standing, y), row.collapsed_seeds
        xs = ys if x is None else _values(cells, standing, x)
        seeds = [seed for seed in ys if seed in xs]
        rows.append(
            Points(
                name=row.name,
                y=tuple(ys[seed] for seed in seeds),
                x=() if x is None else tuple(xs[seed] for seed in seeds),
                collapsed=tuple(seed in lost for seed in seeds) if lost else (),
                **_on_curve(part.experiment, variant),
                missing="" if row.seeds is None or row.seeds.are_whole else f"{row.seeds} seeds",
            )
        )
    y_index = table.columns.index(y)
    scale = SCALES[y.shown_unit]
    return Data(
        rows=tuple(rows),
        y_title=with_unit(y.title, y.shown_unit),
        x_title=shape.x_title
        or ("" if shape.x is None else shape.x if x is None else with_unit(x.title, x.shown_unit)),
        levels={
            row.marked_name: scale * summary.mean
            for row in table.rows
            if row.kind != "row" and (summary := row.summaries[y_index]) is not None
        },
        top=scale if y.shown_unit in ("percent", "fraction") else None,
        about=about_data(standing.plan),
        numbers=_numbers(part.experiment),
        has_intervals=standing.plan.seed_rule is None,
    )


def with_unit(title: str, unit: Unit) -> str:
    """A title with the unit, unless the title contains it.

    >>> with_unit("MoF", "percent"), with_unit("s/video", "seconds"), with_unit("Mat Score", "fraction")
    ('MoF (%)', 's/video', 'Mat Score (0 to 1)')
    """
    sign = _SIGNS[unit]
    return title if not sign or re.search(rf"\b({unit}|{sign})\b", title) else f"{title} ({sign})"


def about_data(plan: Plan) -> str:
    """Data set, splits and numbers of scored videos of a sweep."""
    scored = ", ".join(f"split {name}: {split.n_test} {plan.part} videos" for name, split in plan.splits.items())
    return f"{name_of(plan.store)}, {scored}"


def _on_curve(experiment: Experiment, row: Variant) -> dict[str, str]:
    """The label of a row on the x axis of a curve, and its other labels as the name of the line."""
    title = _curve_title(experiment)
    if title is None:
        return {}
    labels = dict(zip(experiment.label_titles, row.labels, strict=True))
    place = labels.pop(title)
    return {"place": place, "group": ", ".join(labels.values())}


def _numbers(experiment: Experiment) -> dict[str, float]:
    """Label on the x axis of a curve -> number of the setting that it stands for; empty if no setting fits."""
    title = _curve_title(experiment)
    if title is None:
        return {}
    column = experiment.label_titles.index(title)
    labels = [row.labels[column] for row in experiment.variants]
    return numbers_of_setting(labels, [row.settings for row in experiment.variants], title) or {}


def _curve_title(experiment: Experiment) -> str | None:
    """Title of the labels on the x axis of a curve; None for other figures."""
    shape = experiment.figure or Figure()
    return shape.x if shape.kind == "curve" else None


def draw_pictures(
    pictures: Sequence[Picture], folder: Path, digests_file: str = DIGESTS, until: float = math.inf
) -> dict[str, Path]:
    """Draws the figures whose files are missing or outdated.

    Drawing takes seconds and importing matplotlib another one, so figures are kept while their data and the drawing
    code are unchanged.

    Args:
        pictures: the figures.
        folder: folder of their files.
        digests_file: name of the file with their digests; other figures of the folder need another one.
        until: when no further figure is begun, on the monotonic clock.

    Returns:
        File name -> path of the figures that show their data: all of them, unless the time has ended.
    """
    path = folder / digests_file
    try:
        earlier = read_json(path, hint="", shape={ANY_KEY: str})
    except InputError:  # missing or damaged: every figure is drawn
        earlier = {}
    code = _code()
    digests = {picture.name: hashlib.sha256(code + picture.shows.encode()).hexdigest() for picture in pictures}
    paths: dict[str, Path] = {}
    shown = dict(earlier)
    for picture in pictures:
        files = {f"{picture.name}.{suffix}": folder / f"{picture.name}.{suffix}" for suffix in figure_style.SUFFIXES}
        if earlier.get(picture.name) != digests[picture.name] or not all(file.exists() for file in files.values()):
            if time.monotonic() > until:
                continue
            with figure_style.style():
                figure_style.save(picture.draw(), folder, picture.name)
        paths |= files
        shown[picture.name] = digests[picture.name]
    shown = {name: digest for name, digest in shown.items() if name in digests}
    if earlier != shown:
        write_json(path, shown)
    return paths


def _curves(cells: Sequence[Cell], trainings: Mapping[str, Training]) -> list[Curve]:
    """A curve for each training; rows that share a training share its curve."""
    rows: dict[str, list[str]] = {}
    first: dict[str, Cell] = {}
    for cell in cells:
        names = rows.setdefault(cell.identity, [])
        names += [cell.variant.name] if cell.variant.name not in names else []
        first.setdefault(cell.identity, cell)
    return [
        Curve(row=" / ".join(rows[identity]), seed=cell.seed, split=cell.split, values=trainings[identity].curves)
        for identity, cell in first.items()
        if trainings[identity].curves.get(LOSS)
    ]


def _code() -> bytes:
    """A digest of the drawing modules."""
    rooms = Path(__file__).parents[1]
    files = [Path(plots.__file__), *sorted((rooms / "figures").glob("*.py")), *sorted((rooms / "search").glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def _column(columns: Sequence[Column], title: str | None) -> Column:
    return next((column for column in columns if column.title == title), columns[0])


def _values(cells: Sequence[Cell], standing: Standing, column: Column) -> dict[int, float]:
    """Seed -> value in the unit of the axis."""
    values = seed_values(cells, standing.results, column)
    scale = SCALES[column.shown_unit]
    means = seed_means(values, sorted({split for split, _ in values}))
    return {seed: scale * mean for seed, mean in means.items()}

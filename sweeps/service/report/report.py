"""The figures and the page of a sweep, made from its plan and its trials' folders alone.

A figure is drawn again only when what it shows, or the code that draws it, has changed: drawing takes seconds, and
matplotlib one more to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mucon.videos import videos_of
from storage import open_store
from sweeps.service.plan.plan import Plan
from sweeps.service.report.figures import segmentations as figure_segmentations
from sweeps.service.report.figures.pictures import _draw, _pictures
from sweeps.service.report.page import Drawn, make_page
from sweeps.service.report.trainings import read_trials
from sweeps.service.tables.table import Table
from sweeps.service.trials.cell_results import Known


def write_report(plan: Plan, made: Mapping[str, Table], known: Mapping[str, Known]) -> dict[str, Path]:
    """Writes figures as `TABLE.svg` and `.png` and the page as `SWEEP.html` beside the tables.

    Args:
        plan: the sweep.
        made: its tables, by name.
        known: of each cell, by key.

    Returns:
        Name -> file.

    Raises:
        InputError: a figure names a recording that the test part does not have.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    trials = read_trials(plan, known)
    pictures = {
        part.experiment.name: list(_pictures(part, made[part.experiment.name], known, trials, plan))
        for part in plan.parts
    }
    paths = _draw([picture for of_table in pictures.values() for picture in of_table], plan.folder)
    drawn = {
        table: [
            Drawn(
                name=picture.name,
                title=picture.title,
                svg=(plan.folder / f"{picture.name}.svg").read_text(encoding="utf-8"),
                notes=picture.notes,
            )
            for picture in of_table
        ]
        for table, of_table in pictures.items()
    }
    page = plan.folder / f"{plan.name}.html"
    page.write_text(make_page(plan, made, drawn, trials), encoding="utf-8")
    return {**paths, page.name: page}


def check_figures(plan: Plan) -> None:
    """Passes where the figures can be drawn when the trials are there; before any is trained.

    Raises:
        InputError: a figure names a recording that the test part does not have.
    """
    for part in plan.parts:
        shape = part.experiment.figure
        if shape is not None and shape.recordings:
            split = part.cells[0].split
            test = [video.id for video in videos_of(open_store(plan.store), split, "test")]
            figure_segmentations.chosen_recordings(shape, test, split)

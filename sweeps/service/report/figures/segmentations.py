"""Colour bars of chosen recordings: the truth, and what the trials of a table's rows predicted, under each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mucon.errors import InputError, nearest
from mucon.plots import segmentation_figure
from mucon.segments import Segmentation
from mucon.videos import videos_of, vocabulary_of
from mucon.vocabulary import Vocabulary
from storage import StoreError, open_store
from sweeps.service.plan.cells import Cell
from sweeps.service.spec.figure import Figure
from sweeps.service.trials.cell_results import Known
from sweeps.service.trials.folder import TrialFolder

TRUTH = "ground truth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What is drawn, and what is not.

    Attributes:
        rows: recording -> (name, segmentation) from top to bottom.
        vocabulary: the actions; None where nothing is drawn.
        fps: frames per second, where the store tells.
        notes: rows and recordings that are left out, and why.
    """

    rows: Mapping[str, Sequence[tuple[str, Segmentation]]]
    vocabulary: Vocabulary | None
    fps: float | None
    notes: tuple[str, ...]

    def draw(self) -> Any:
        """The figure, for `savefig`."""
        assert self.vocabulary is not None
        return segmentation_figure(self.rows, self.vocabulary, fps=self.fps)


def segmentations(
    shape: Figure, cells: Sequence[Cell], known: Mapping[str, Known], *, results: Path, store: str
) -> Bars:
    """Reads the truth from the store and each row's predictions from its trial with the first seed on the first split.

    Args:
        shape: which recordings.
        cells: of the table.
        known: of each cell, by key.
        results: the results folder.
        store: path of the store; where there is none any more, nothing is drawn and a note says so.

    Raises:
        InputError: a recording that is not in the test part.
    """
    try:
        opened = open_store(store)
    except StoreError as error:
        return Bars(rows={}, vocabulary=None, fps=None, notes=(f"no segmentations: {error.line}",))
    vocabulary, split = vocabulary_of(opened), cells[0].split
    test = {video.id: video for video in videos_of(opened, split, "test")}
    chosen = chosen_recordings(shape, list(test), split)
    rows: dict[str, list[tuple[str, Segmentation]]] = {
        name: [(TRUTH, Segmentation.of(test[name].transcript, test[name].lengths or ()))] for name in chosen
    }
    notes = []
    first: dict[str, Cell] = {}
    for cell in cells:
        if cell.split == split:
            first.setdefault(cell.variant.name, cell)
    for row, cell in first.items():
        predicted = _predictions(cell, known[cell.key], results, vocabulary)
        if predicted is None:
            notes.append(f"no segmentations of {cell}: it is {known[cell.key].state}")
            continue
        for name in chosen:
            if name in predicted:
                rows[name].append((row, predicted[name]))
    seed = cells[0].seed
    notes.append(f"segmentations of split {split}, seed {seed}")
    return Bars(rows=rows, vocabulary=vocabulary, fps=opened.manifest.fps, notes=tuple(notes))


def chosen_recordings(shape: Figure, test: Sequence[str], split: str) -> list[str]:
    """The recordings that a figure shows.

    Args:
        shape: the figure.
        test: ids of the test part.
        split: its name.

    Raises:
        InputError: one is named that is not in the test part.
    """
    unknown = [name for name in shape.recordings if name not in test]
    if unknown:
        raise InputError(
            f"a recording that is drawn is in the test part of split {split}, {name!r} is not{nearest(name, test)}: "
            "name another"
            for name in unknown
        )
    return list(shape.recordings or test[: shape.n_recordings])


def _predictions(cell: Cell, known: Known, results: Path, vocabulary: Vocabulary) -> dict[str, Segmentation] | None:
    """Recording -> what the cell's trial predicted, or None where it has not."""
    if known.scores is None:
        return None
    folder = TrialFolder(results / "trials" / cell.identity).evaluation_path(cell.evaluation)
    path = folder / "predictions" / f"{cell.variant.prediction or 'full'}.json"
    try:
        videos = json.loads(path.read_text(encoding="utf-8"))["videos"]
    except FileNotFoundError:
        return None
    return {
        name: Segmentation.of(vocabulary.ids(value["transcript"]), value["lengths"]) for name, value in videos.items()
    }

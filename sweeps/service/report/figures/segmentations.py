"""Colour bars of selected recordings: the ground truth above the predictions of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mucon.errors import InputError, Problem, nearest
from mucon.plots import segmentation_figure
from mucon.segments import Segmentation
from mucon.videos import ScoredPart, video_of, vocabulary_of
from mucon.vocabulary import Vocabulary
from storage import StoreError, open_store
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.report.figures.picture import Picture
from sweeps.service.spec.figure import Figure
from sweeps.service.tables.standing import Standing

TRUTH = "ground truth"


def segmentations(part: Part, standing: Standing, *, name: str, title: str) -> Picture | None:
    """The ground truth and each row's prediction by its trial with the first seed on the first split.

    Args:
        part: part of the plan with the table.
        standing: state of the sweep.
        name: name of the figure's files.
        title: caption.

    Returns:
        The picture; None if the store cannot be opened, or if it lacks the scored recordings.

    Raises:
        InputError: the figure names a recording that is not scored.
    """
    plan = standing.plan
    try:
        store, split = open_store(plan.store), part.cells[0].split
        scored = {id: video_of(store, id) for id in plan.splits[split].validation or store.split(split, "test")}
    except StoreError:
        return None
    vocabulary = vocabulary_of(store)
    recordings = chosen_recordings(part.experiment.figure or Figure(), list(scored), split, plan.part)
    rows: dict[str, list[tuple[str, Segmentation]]] = {id: [] for id in recordings}
    notes = []
    for id in recordings:
        truth = scored[id].segmentation
        if truth is None:
            notes.append(f"no ground truth of {id}: its true lengths are unknown")
        else:
            rows[id].append((TRUTH, truth))
    first: dict[str, Cell] = {}
    for cell in part.cells:
        if cell.split == split:
            first.setdefault(cell.variant.name, cell)
    for row, cell in first.items():
        try:
            predicted = _predictions(cell, plan, vocabulary)
        except InputError as error:
            notes.append(error.line)
            continue
        if predicted is None:
            notes.append(f"no segmentations of {cell}: {standing.results[cell.key].state}")
            continue
        for id in recordings:
            rows[id].append((row, predicted.get(id, Segmentation.of([], []))))
            if id not in predicted:
                notes.append(f"no segmentation of {id} by {cell}: undefined")
    notes.append(f"segmentations of split {split}, seed {part.cells[0].seed}")
    shows = [(id, n, s.transcript.tolist(), s.lengths.tolist()) for id, bars in rows.items() for n, s in bars]
    return Picture(
        name=name,
        title=title,
        shows=repr(shows),
        draw=lambda: segmentation_figure(rows, vocabulary, fps=store.manifest.fps),
        notes=tuple(notes),
    )


def chosen_recordings(shape: Figure, scored: Sequence[str], split: str, part: ScoredPart) -> list[str]:
    """The recordings that a figure shows.

    Args:
        shape: specification of the figure.
        scored: ids of the scored part.
        split: name of the split.
        part: name of the part.

    Raises:
        InputError: a named recording is not in the scored part.
    """
    unknown = [id for id in shape.recordings if id not in scored]
    if unknown:
        raise InputError(
            Problem(
                rule="unknown",
                place="figure.recordings",
                value=id,
                message=f"unknown recording {id!r}, not in the {part} part of split {split}{nearest(id, scored)}",
            )
            for id in unknown
        )
    return list(shape.recordings or scored[: shape.n_recordings])


def _predictions(cell: Cell, plan: Plan, vocabulary: Vocabulary) -> dict[str, Segmentation] | None:
    """Recording -> prediction of the cell's trial; None before its evaluation."""
    videos = plan.results.reading(cell.identity).segments(cell.evaluation, cell.variant.prediction or "full")
    return None if videos is None else as_segmentations(videos, vocabulary)


def as_segmentations(videos: Mapping[str, Mapping[str, Any]], vocabulary: Vocabulary) -> dict[str, Segmentation]:
    """The segmentations of `TrialReading.segments`.

    Raises:
        InputError: an action that the vocabulary lacks.
    """
    return {id: Segmentation.of(vocabulary.ids(value["transcript"]), value["lengths"]) for id, value in videos.items()}

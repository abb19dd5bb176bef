"""Imports a dataset on disk as a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.constants import MANIFEST, Limits
from storage.folders import check_target
from storage.format.arrays import Conversion
from storage.layouts import Layout, Progress, Survey, no_progress
from storage.writer import StoreWriter


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import.

    Attributes:
        survey: properties of the dataset.
        conversion: rounding errors of the conversion to the dtype of the store.
    """

    survey: Survey
    conversion: Conversion


def import_data(
    layout: Layout,
    target: Path,
    *,
    times: Mapping[str, float | None] | None = None,
    replace: bool = False,
    limits: Limits | None = None,
    progress: Progress = no_progress,
) -> Imported:
    """Validates a whole dataset, then writes it as a store.

    Args:
        layout: dataset to import.
        target: folder of the new store.
        times: any of fps, window, stride and offset of the feature files, see `StoreWriter`; default: those that the
            dataset tells. If the layout keeps every
            K-th frame, the store has 1/K of the fps and K times the stride.
        replace: whether to replace an existing store at `target`.
        limits: sizes at which row groups and shards are closed.
        progress: called for each clip that is checked and written.

    Raises:
        StoreError: the target exists, or the dataset is invalid (all problems). Nothing is written then.
    """
    check_target(target, marker=MANIFEST, replace=replace)
    survey = layout.survey(progress)
    writer = StoreWriter(
        target,
        dim=survey.dim,
        dtype=survey.dtype,
        vocabulary=survey.vocabulary,
        background=survey.background,
        metadata=survey.metadata,
        replace=replace,
        limits=limits,
        **store_times(survey, times or {}),
    )
    with writer:
        for done, clip in enumerate(layout.clips(), 1):
            writer.add_clip(clip)
            progress("writing", done, survey.n_videos)
    return Imported(survey, writer.conversion)


def store_times(survey: Survey, times: Mapping[str, float | None]) -> dict[str, Any]:
    """Returns the times of the frames that are kept of a dataset.

    Args:
        survey: properties of the dataset.
        times: any of fps, window, stride and offset of the feature files; they take precedence over those in `survey`.
    """
    given = {**survey.times, **{name: value for name, value in times.items() if value is not None}}
    if "fps" in given:
        given["fps"] /= survey.sample_rate
    if "stride" in given:
        given["stride"] *= survey.sample_rate
    return given

"""From a data set on disk to a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from storage.arrays import Conversion
from storage.constants import Limits
from storage.folders import check_target
from storage.layouts import Layout, Progress, Survey, no_progress
from storage.writer import StoreWriter


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import has done.

    Attributes:
        survey: what was found.
        conversion: what converting the features to the store's dtype has changed.
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
    """Checks a data set whole, then writes it as a store.

    Args:
        layout: the data set.
        target: where the store shall stand.
        times: any of fps, window, stride and offset (see `StoreWriter`).
        replace: whether a store that stands there gives way.
        limits: when row groups and shards are closed.
        progress: is told of each clip that is checked and written.

    Raises:
        StoreError: something stands at the target, or all problems of the data set: nothing is written then.
    """
    check_target(target, replace=replace)
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
        **dict(times or {}),
    )
    with writer:
        for done, clip in enumerate(layout.clips(), 1):
            writer.add(
                clip.id,
                clip.features,
                transcript=clip.transcript,
                lengths=clip.lengths,
                splits=clip.splits,
                group=clip.group,
                activity=clip.activity,
            )
            progress("writing", done, survey.n_videos)
    return Imported(survey, writer.conversion)

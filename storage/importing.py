"""Imports a dataset on disk as a store."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.constants import MANIFEST, Limits
from storage.errors import StoreError
from storage.folders import check_target
from storage.format.arrays import Conversion
from storage.layouts import Clip, Layout, Progress, Survey, no_progress
from storage.writer import PreparedClip, StoreWriter


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
    threads: int | None = None,
) -> Imported:
    """Validates a whole dataset and writes it as a store, which appears at `target` only if the dataset is valid.

    The values of the features are checked while they are written beside the target, so that each file is read once.

    Args:
        layout: dataset to import.
        target: folder of the new store.
        times: any of fps, window, stride and offset of the feature files, see `StoreWriter`; default: those that the
            dataset contains. If the layout keeps every K-th frame, the store has 1/K of the fps and K times the stride.
        replace: whether to replace an existing store at `target`.
        limits: sizes at which row groups and shards are closed.
        progress: called for each clip that is written, and for each that is checked if the dataset is invalid.
        threads: number of threads that read, check and convert the clips, at least 2; one of them also writes. The
            checksum of the file that is written takes part of another one. Default: one for each processor, at most 4.

    Raises:
        StoreError: the target exists, or the dataset is invalid (all problems). `target` is unchanged then.
    """
    check_target(target, marker=MANIFEST, replace=replace)
    with _whole_report(layout, progress):
        survey = layout.survey(progress, values=False)
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
    readers = max(1, (threads or min(4, os.cpu_count() or 1)) - 1)
    with writer, ThreadPoolExecutor(readers) as pool:
        made = _in_order(pool, readers + 1, writer.prepare, layout.clips())
        for done in range(1, survey.n_videos + 1):
            with _whole_report(layout, progress):
                clip = next(made)
            writer.append(clip)
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


@contextmanager
def _whole_report(layout: Layout, progress: Progress) -> Iterator[None]:
    """Replaces the first problems of a dataset by all of them, also those of the values of all features.

    A file that has changed since the survey is the only problem: the others may come from the change.
    """
    try:
        yield
    except StoreError as error:
        if error.problems[0].rule != "state":
            layout.survey(progress)
        raise


def _in_order(
    pool: ThreadPoolExecutor, ahead: int, prepare: Callable[[Clip], PreparedClip], clips: Iterable[Clip]
) -> Iterator[PreparedClip]:
    """Prepares clips in the threads of a pool and in this one, and yields them in their order.

    Args:
        pool: the threads.
        ahead: number of clips that are prepared before they are needed.
        prepare: prepares one clip.
        clips: the clips.
    """
    waiting: deque[tuple[Clip, Future[PreparedClip]]] = deque()
    for clip in clips:
        waiting.append((clip, pool.submit(prepare, clip)))
        if len(waiting) > ahead:
            yield _next(waiting, prepare)
    while waiting:
        yield _next(waiting, prepare)


def _next(waiting: deque[tuple[Clip, Future[PreparedClip]]], prepare: Callable[[Clip], PreparedClip]) -> PreparedClip:
    """Takes the first clip; as long as a thread prepares it, this one prepares those that no thread has begun."""
    for place, (clip, future) in enumerate(waiting):
        if waiting[0][1].done():
            break
        if future.cancel():
            made: Future[PreparedClip] = Future()
            made.set_result(prepare(clip))
            waiting[place] = clip, made
    return waiting.popleft()[1].result()

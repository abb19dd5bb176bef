"""Appends the clips of a dataset, or of another store, to a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from storage.editing.edit import Edit, Piece
from storage.editing.union import ONE_CLIP, header_conflicts, united, united_names
from storage.errors import Problem, StoreError, condensed, counted, some
from storage.format.schema import little_endian
from storage.importing import store_times
from storage.layouts import Clip, Layout, Progress, no_progress
from storage.reader import Store


def with_store(store: Store, source: Store, *, new_actions: bool) -> Edit:
    """Returns the store with the clips of another one.

    Args:
        store: the store.
        source: store of the new clips, of the same D, dtype and times.
        new_actions: whether these may have actions that the store does not know.

    Raises:
        StoreError: see `united`; a clip of the source has the id of a clip of the store; new actions without
            permission.
    """
    problems = _new_actions_problems(store, source.manifest.vocabulary, source.address, allowed=new_actions)
    try:
        edit = united((store, source), repeated=False)
    except StoreError as error:
        raise StoreError([*error.problems, *problems]) from error
    if problems:
        raise StoreError(problems)
    return replace(edit, lines=(f"appends {counted(len(source), 'video')}", *edit.lines[1:]))


def with_dataset(
    store: Store,
    layout: Layout,
    *,
    times: Mapping[str, float | None],
    new_actions: bool,
    progress: Progress = no_progress,
) -> Edit:
    """Returns the store with the clips of a dataset, which is validated first.

    Args:
        store: the store.
        layout: dataset of the new clips, of the same D and dtype; if it names no background, that of the store holds.
        times: any of fps, window, stride and offset of the feature files.
        new_actions: whether these may have actions that the store does not know.
        progress: called for each clip.

    Raises:
        StoreError: an invalid dataset; another D, dtype or other times; background actions that contradict those of
            the store; a clip with the id of a clip of the store; or new actions without permission (all problems).
    """
    survey = layout.survey(progress)
    source = str(getattr(layout, "source", "the dataset"))
    header = store.manifest.header
    vocabulary = united_names([header.vocabulary, survey.vocabulary])
    background = survey.background or tuple(name for name in survey.vocabulary if name in header.background)
    other = replace(
        header,
        dim=survey.dim,
        dtype=survey.dtype,
        vocabulary=survey.vocabulary,
        background=background,
        **store_times(survey, times),
    )
    problems = list(header_conflicts([header, other], [str(store.path), source]))
    problems += _new_actions_problems(store, survey.vocabulary, source, allowed=new_actions)
    width = survey.dim * little_endian(survey.dtype).itemsize
    n_bytes, repeated = 0, []
    for clip in layout.clips():
        n_bytes += len(clip.features) * width
        if clip.id in store:
            repeated.append(clip.id)
    message = f"{store.path} has such a clip"
    problems += condensed(
        Problem(rule="duplicate", place=f"{source}: {video}", value=video, message=message, hint=ONE_CLIP)
        for video in repeated
    )
    if problems:
        raise StoreError(problems)
    ids = [vocabulary.index(name) for name in survey.vocabulary]
    return Edit(
        header=replace(header, vocabulary=vocabulary, background=united_names([header.background, background])),
        pieces=(Piece(store=store, records=tuple(store.catalogue.records())),),
        clips=lambda: _mapped(layout, ids),
        n_clips=survey.n_videos,
        n_bytes=n_bytes,
        lines=(f"appends {counted(survey.n_videos, 'video')}", *(f"note: {note}" for note in survey.notes)),
    )


def _mapped(layout: Layout, ids: Sequence[int]) -> Iterator[Clip]:
    """Yields the clips of a dataset with the ids of the actions in the store."""
    for clip in layout.clips():
        transcript = None if clip.transcript is None else tuple(ids[action] for action in clip.transcript)
        yield replace(clip, transcript=transcript)


def _new_actions_problems(store: Store, names: Sequence[str], source: str, *, allowed: bool) -> list[Problem]:
    new = [name for name in names if name not in store.manifest.vocabulary]
    if allowed or not new:
        return []
    message = f"actions that {store.path} does not have ({len(new)}): {some(new, 20)}"
    hint = "pass --new-actions to add them, or rename them"
    return [Problem(rule="unknown", place=source, value=new, message=message, hint=hint)]

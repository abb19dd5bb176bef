"""Removes clips from a store."""

from __future__ import annotations

from collections.abc import Sequence

from storage.editing.edit import Edit, Piece, kept_lines
from storage.errors import Problem, StoreError, counted, nearest, some
from storage.reader import Store


def without(store: Store, ids: Sequence[str]) -> Edit:
    """Returns the store without some of its clips; its actions stay.

    Args:
        store: the store.
        ids: clips to remove.

    Raises:
        StoreError: no id, unknown ids (all of them), or no clip would be left.
    """
    place = str(store.path)
    unknown = [video for video in ids if video not in store]
    problems = [
        Problem(rule="unknown", place=place, value=video, message=f"unknown video {video!r}{nearest(video, store.ids)}")
        for video in unknown
    ]
    if not ids:
        problems.append(Problem(rule="missing", place=place, expected="at least one video to remove"))
    removed = {store.catalogue.index(video) for video in ids if video in store}
    if len(removed) == len(store):
        message = "no video would be left"
        problems.append(Problem(rule="range", place=place, value=len(removed), message=message))
    if problems:
        raise StoreError(problems)
    records = store.catalogue.records()
    kept = [record for index, record in enumerate(records) if index not in removed]
    piece = Piece(store=store, records=tuple(kept))
    lines = [f"removes {counted(len(removed), 'video')}: {some((store.ids[index] for index in sorted(removed)), 20)}"]
    parts = set(store.parts) - {part for record in kept for part in record.splits}
    if parts:
        lines.append(f"note: no video is left in {some(sorted(parts))}")
    before, after = ({action for one in some_ for action in one.transcript or ()} for some_ in (records, kept))
    if before - after:
        names = [store.manifest.vocabulary[action] for action in sorted(before - after)]
        lines.append(f"note: actions that no video contains any more: {some(names)}")
    return Edit(header=store.manifest.header, pieces=(piece,), lines=(*lines, *kept_lines([piece])))

"""Unites stores: their actions by name, and their clips by id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from storage.editing.edit import Edit, Piece, kept_lines
from storage.errors import Problem, StoreError, condensed, counted, some
from storage.format.manifest import Header
from storage.format.records import Record, natural
from storage.reader import Store
from storage.remote.addresses import name_of

_TIMES = ("fps", "window", "stride", "offset")
ONE_CLIP = "remove it from one of them"
"""What to do about a clip in two stores."""


def united(stores: Sequence[Store], *, repeated: bool = True) -> Edit:
    """Returns the store with the clips of several stores.

    The actions of the first store keep their ids; those that only later stores know follow in their order.

    Args:
        stores: at least one, of the same D and dtype.
        repeated: whether a clip may be in several stores, with the same features and no contradiction.

    Raises:
        StoreError: D, dtype, times or background actions differ, or stores contradict each other about a clip (all
            problems).
    """
    problems = list(header_conflicts([store.manifest.header for store in stores], [store.address for store in stores]))
    vocabulary = united_names([store.manifest.vocabulary for store in stores])
    clips: dict[str, tuple[int, Record]] = {}
    found: list[Problem] = []
    n_repeated = 0
    for number, store in enumerate(stores):
        ids = [vocabulary.index(name) for name in store.manifest.vocabulary]
        for record in (with_actions(record, ids) for record in store.catalogue.records()):
            first, other = clips.get(record.id, (number, record))
            conflicts = list(_clip_conflicts(other, record, vocabulary, repeated=repeated)) if first != number else []
            found += [one.under(f"{store.address} and {stores[first].address}") for one in conflicts]
            n_repeated += first != number
            clips[record.id] = (first, other if conflicts or first == number else _joined(other, record))
    problems += condensed(found)
    if problems:
        raise StoreError(problems)
    pieces = [
        Piece(store=store, records=tuple(record for first, record in clips.values() if first == number))
        for number, store in enumerate(stores)
    ]
    lines = [f"unites {counted(len(clips), 'video')} of {counted(len(stores), 'store')}"]
    if n_repeated:
        lines.append(f"note: {counted(n_repeated, 'video')} with the same features in several stores, kept once")
    lines += _difference_lines(stores, vocabulary)
    times: dict[str, Any] = {name: _known([getattr(store.manifest, name) for store in stores]) for name in _TIMES}
    header = replace(
        stores[0].manifest.header,
        vocabulary=vocabulary,
        background=united_names([store.manifest.background for store in stores]),
        metadata=united_metadata(stores),
        **times,
    )
    return Edit(header=header, pieces=tuple(pieces), lines=(*lines, *kept_lines(pieces)))


def united_names(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns the names of all lists, each once, in the order of their first occurrence."""
    return tuple(dict.fromkeys(name for names in lists for name in names))


def with_actions(record: Record, ids: Sequence[int]) -> Record:
    """Returns a record with other ids of the actions.

    Args:
        record: the record.
        ids: new id of each action.
    """
    if record.transcript is None:
        return record
    return replace(record, transcript=tuple(ids[action] for action in record.transcript))


def header_conflicts(headers: Sequence[Header], places: Sequence[str]) -> Iterator[Problem]:
    """Yields the properties in which two stores differ so that they cannot be united."""
    for (first, other), (header, place) in combinations(zip(headers, places, strict=True), 2):
        for name in ("dim", "dtype", *_TIMES):
            expected, value = getattr(first, name), getattr(header, name)
            if value != expected and (name not in _TIMES or None not in (value, expected)):
                hint = f"read its data with --dtype {expected}" if name == "dtype" else ""
                yield Problem(
                    rule="mismatch",
                    place=f"{place}: {name}",
                    value=value,
                    expected=f"{expected} as in {other}",
                    hint=hint,
                )
        for name in header.vocabulary:
            if name in first.vocabulary and (name in header.background) != (name in first.background):
                here, there = (place, other) if name in header.background else (other, place)
                message = f"{name!r} is background in {here} but not in {there}"
                hint = "import the data of one of them with the same --background"
                yield Problem(rule="conflict", place=f"{place}: background", value=name, message=message, hint=hint)


def _clip_conflicts(first: Record, second: Record, vocabulary: Sequence[str], *, repeated: bool) -> Iterator[Problem]:
    """Yields the contradictions between two records of one id."""
    if not repeated or first.sha256 != second.sha256 or first.frames != second.frames:
        message = "a clip of this name exists already" + (", with other features" if repeated else "")
        yield Problem(rule="duplicate", place=first.id, value=first.id, message=message, hint=ONE_CLIP)
        return
    for name in ("group", "activity", "transcript", "lengths"):
        here, there = getattr(first, name), getattr(second, name)
        if None not in (here, there) and here != there:
            if name == "transcript":
                here, there = ([vocabulary[action] for action in actions] for actions in (here, there))
            yield Problem(rule="conflict", place=f"{first.id}: {name}", value=there, expected=repr(here))
    splits = sorted({*first.splits, *second.splits}, key=natural)
    if len({part.split(":")[0] for part in splits}) < len(splits):
        message = f"belongs to several parts of a split: {some(splits)}"
        yield Problem(rule="conflict", place=f"{first.id}: splits", value=splits, message=message)


def _joined(first: Record, second: Record) -> Record:
    """Returns what two records know together."""
    known = {
        name: getattr(second, name)
        for name in ("group", "activity", "transcript", "lengths")
        if getattr(first, name) is None
    }
    return replace(first, splits=tuple(sorted({*first.splits, *second.splits}, key=natural)), **known)


def _known(values: Sequence[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def united_metadata(stores: Sequence[Store]) -> dict[str, Any]:
    """Returns the metadata of all stores.

    What all stores say stays; where they differ, `united` lists name, checksum and metadata of each. Simulated features
    stay marked, also if only some stores contain such.
    """
    every: list[dict[str, Any]] = [store.manifest.metadata for store in stores]
    if all(metadata == every[0] for metadata in every):
        return every[0]
    shared = {key: value for key, value in every[0].items() if all(key in m and m[key] == value for m in every)}
    shared["united"] = []
    for store, metadata in zip(stores, every, strict=True):
        own = {"name": name_of(store.address), "sha256": store.manifest.sha256, "metadata": metadata}
        shared["united"] += metadata.get("united", [own])
    marked = [
        name_of(store.address) for store, metadata in zip(stores, every, strict=True) if metadata.get("simulated")
    ]
    if marked and "simulated" not in shared:
        shared["simulated"] = {"like": f"features of {', '.join(marked)}"}
    return shared


def _difference_lines(stores: Sequence[Store], vocabulary: Sequence[str]) -> Iterator[str]:
    """Yields notes about what only some of the stores know."""
    partial = [name for name in vocabulary if not all(name in store.manifest.vocabulary for store in stores)]
    if partial:
        yield f"note: actions that not all stores have: {some(partial, 20)}"
    for name in _TIMES:
        unknown = [store.address for store in stores if getattr(store.manifest, name) is None]
        if 0 < len(unknown) < len(stores):
            yield f"note: {name} is not known in {some(unknown)}; takes that of the others"

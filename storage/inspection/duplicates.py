"""Clips with the same features under several ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import Problem, counted, some

if TYPE_CHECKING:
    from storage.reader import Store


def duplicate_clips(store: Store) -> list[tuple[str, ...]]:
    """Returns the sorted ids of clips whose features have the same checksum, at least two each."""
    ids: dict[str, list[str]] = {}
    for video, digest in zip(store.ids, store.catalogue.column("sha256"), strict=True):
        ids.setdefault(digest, []).append(video)
    return [tuple(same) for same in ids.values() if len(same) > 1]


def duplicate_warnings(store: Store, duplicates: list[tuple[str, ...]]) -> list[Problem]:
    """Returns a warning for each split whose parts share features, and one for the clips that are only repeated."""
    across: dict[str, list[tuple[str, ...]]] = {}
    within = []
    for same in duplicates:
        parts: dict[str, set[str]] = {}
        for part in {part for splits in store.catalogue.column("splits", same) for part in splits}:
            parts.setdefault(part.split(":")[0], set()).add(part)
        leaking = [split for split, found in parts.items() if len(found) > 1]
        for split in leaking:
            across.setdefault(split, []).append(same)
        if not leaking:
            within.append(same)
    found = []
    for split, groups in sorted(across.items()):
        message = f"several parts contain the same features: {_words(groups)}"
        hint = "remove them from one part; scores on what was trained say nothing"
        value = [list(same) for same in groups]
        found.append(Problem(rule="duplicate", place=f"split {split}", value=value, message=message, hint=hint))
    if within:
        message = f"{counted(len(within), 'group')} of videos with the same features: {_words(within)}"
        value = [list(same) for same in within]
        hint = "keep one of each"
        found.append(Problem(rule="duplicate", place="videos", value=value, message=message, hint=hint))
    return found


def _words(groups: list[tuple[str, ...]]) -> str:
    return some((" = ".join(same[:4]) + (" = ..." if len(same) > 4 else "") for same in groups), 3)

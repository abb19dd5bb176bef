"""Which actions a data set has: its `mapping.txt`, or the names among its labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from storage.errors import StoreError, some
from storage.layouts.labels import Labels, unknown_label_problems
from storage.layouts.text import read_lines
from storage.rules import vocabulary_problems

_LIKE_BACKGROUND = ("sil", "silence", "background", "bg", "none", "unlabelled", "unlabeled", "other")
_SHOWN = 20


def read_mapping(path: Path) -> dict[int, str]:
    """Ids and names of `mapping.txt` (`id name` lines), sorted by id; the ids may have gaps.

    Raises:
        StoreError: lines of another form, or an id or name that stands twice: all of them.
    """
    problems = []
    names: dict[int, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        parts = line.split(None, 1)
        if not parts:
            continue
        if len(parts) != 2 or not re.fullmatch(r"\d+", parts[0]):
            problems.append(f"a mapping has lines `id name`, line {number} of {path} is {line!r}: correct it")
            continue
        action, name = int(parts[0]), parts[1]
        if action in names:
            problems.append(f"a mapping has each id once, line {number} of {path} repeats {action}: correct it")
        elif name in names.values():
            problems.append(f"a mapping has each name once, line {number} of {path} repeats {name!r}: correct it")
        else:
            names[action] = name
    if not names and not problems:
        problems.append(f"a mapping has at least one action, {path} has none: fill it, or remove it to have one built")
    if problems:
        raise StoreError(problems)
    return dict(sorted(names.items()))


def vocabulary_of(
    path: Path,
    runs: Mapping[str, Labels],
    files: Mapping[str, Path],
    background: Sequence[str],
    *,
    problems: list[str],
    notes: list[str],
) -> tuple[str, ...]:
    """The names of the actions in the order of their ids, which in a store have no gaps.

    Args:
        path: of `mapping.txt`, which may be missing: then the sorted names of the labels are the actions.
        runs: the labels of each clip.
        files: where they stand.
        background: names that are background.
        problems: gets a line for each wrong line of the mapping, or label that is not in it.
        notes: gets lines about what was built or renumbered, and what looks odd.
    """
    used = {name for found in runs.values() for name in found.names}
    if path.exists():
        try:
            mapping = read_mapping(path)
        except StoreError as error:
            problems += error.problems
            return ()
        vocabulary = tuple(mapping.values())
        problems += unknown_label_problems({files[video]: runs[video] for video in runs}, vocabulary, path)
        if list(mapping) != list(range(len(mapping))):
            moved = [f"{old} {name} is {new}" for new, (old, name) in enumerate(mapping.items()) if old != new]
            notes.append(f"the ids of {path} have gaps and were renumbered in their order: {some(moved, _SHOWN)}")
        idle = [name for name in vocabulary if name not in used]
        if idle:
            notes.append(f"{len(idle)} actions of the mapping stand in no video: {some(idle, _SHOWN)}")
    else:
        vocabulary = tuple(sorted(used))
        shown = ", ".join(f"{index} {name}" for index, name in enumerate(vocabulary))
        notes.append(f"{path} is missing, a mapping was built from the labels: {shown}")
    if vocabulary:
        problems += vocabulary_problems(vocabulary, background)
    if not background:
        like = [name for name in vocabulary if name.lower() in _LIKE_BACKGROUND]
        notes += [f"{name!r} may be background: if so, say --background {name}" for name in like]
    return vocabulary

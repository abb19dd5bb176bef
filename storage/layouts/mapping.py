"""Actions of a dataset: its `mapping.txt`, or the names among its labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from storage.errors import Problem, StoreError, some
from storage.format.rules import vocabulary_problems
from storage.layouts.findings import Findings
from storage.layouts.labels import Labels, unknown_label_problems
from storage.layouts.text import read_lines

_LIKE_BACKGROUND = ("sil", "silence", "background", "bg", "none", "unlabelled", "unlabeled", "other")
_MOST_NAMES = 20


def read_mapping(path: Path) -> dict[int, str]:
    """Returns the ids and names of a `mapping.txt` (`ID NAME` lines), sorted by id; the ids may have gaps.

    Raises:
        StoreError: malformed lines, or duplicate ids or names (all of them).
    """
    problems = []
    names: dict[int, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}:{number}"
        parts = line.split(None, 1)
        if not parts:
            continue
        if len(parts) != 2 or not re.fullmatch(r"\d+", parts[0]):
            problems.append(Problem(rule="type", place=place, value=line, expected="a line `ID NAME`"))
            continue
        action, name = int(parts[0]), parts[1]
        if action in names:
            problems.append(Problem(rule="duplicate", place=place, value=action, message=f"duplicate id {action}"))
        elif name in names.values():
            problems.append(Problem(rule="duplicate", place=place, value=name, message=f"duplicate action {name!r}"))
        else:
            names[action] = name
    if not names and not problems:
        hint = "remove the file to use the names in the labels"
        problems.append(Problem(rule="missing", place=str(path), expected="at least one action", hint=hint))
    if problems:
        raise StoreError(problems)
    return dict(sorted(names.items()))


def vocabulary_of(
    path: Path, runs: Mapping[str, Labels], files: Mapping[str, Path], background: Sequence[str], findings: Findings
) -> tuple[str, ...]:
    """Returns the names of the actions in the order of their ids, which have no gaps in a store.

    Args:
        path: path of `mapping.txt`; if it does not exist, the actions are the sorted names of the labels.
        runs: labels of each clip.
        files: label file of each clip.
        background: names of the background actions.
        findings: receives problems with the mapping and the labels, and notes about changes.
    """
    used = {name for labels in runs.values() for name in labels.names}
    if path.exists():
        try:
            mapping = read_mapping(path)
        except StoreError as error:
            findings.problems += error.problems
            return ()
        vocabulary = tuple(mapping.values())
        findings.problems += unknown_label_problems({files[video]: runs[video] for video in runs}, vocabulary, path)
        if list(mapping) != list(range(len(mapping))):
            moved = [f"{name} {old} -> {new}" for new, (old, name) in enumerate(mapping.items()) if old != new]
            findings.notes.append(f"{path}: ids have gaps and were renumbered: {some(moved, _MOST_NAMES)}")
        unused = [name for name in vocabulary if name not in used]
        if unused:
            findings.notes.append(f"{path}: unused actions ({len(unused)}): {some(unused, _MOST_NAMES)}")
    else:
        vocabulary = tuple(sorted(used))
        numbered = ", ".join(f"{index} {name}" for index, name in enumerate(vocabulary))
        findings.notes.append(f"{path} is missing, built a mapping from the labels: {numbered}")
    if vocabulary:
        findings.problems += vocabulary_problems(vocabulary, background)
    if not background:
        likely = [name for name in vocabulary if name.lower() in _LIKE_BACKGROUND]
        findings.notes += [f"{name!r} may be background; if so, pass --background {name}" for name in likely]
    return vocabulary

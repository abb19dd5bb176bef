"""Actions of a dataset: its `mapping.txt`, or the names in its labels and transcripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from storage.errors import Problem, StoreError, condensed, counted, nearest, some
from storage.format.rules import vocabulary_problems
from storage.layouts.findings import Findings
from storage.layouts.labels import Occurrence
from storage.layouts.text import read_lines

_LIKE_BACKGROUND = ("sil", "silence", "background", "bg", "none", "unlabelled", "unlabeled", "other")
_MOST_NAMES = 20


def read_mapping(path: Path) -> dict[int, str]:
    """Returns the ids and names of a `mapping.txt` (`ID NAME` lines), sorted by id; the ids may have gaps.

    Raises:
        StoreError: malformed lines, or duplicate ids or names (all of them).
    """
    problems: list[Problem] = []
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
        hint = "remove the file to use the names in labels and transcripts"
        problems.append(Problem(rule="missing", place=str(path), expected="at least one action", hint=hint))
    if problems:
        raise StoreError(condensed(problems))
    return dict(sorted(names.items()))


def vocabulary_of(
    path: Path,
    mapping: Mapping[int, str] | None,
    occurrences: Iterable[Occurrence],
    background: Sequence[str],
    findings: Findings,
) -> tuple[str, ...]:
    """Returns the names of the actions in the order of their ids, which have no gaps in a store.

    Args:
        path: path of `mapping.txt`.
        mapping: its ids and names; None if it does not exist: the actions are the sorted names that occur.
        occurrences: names in labels and transcripts.
        background: names of the background actions.
        findings: receives problems with the names, and notes about changes.
    """
    places: dict[str, list[Occurrence]] = {}
    for occurrence in occurrences:
        places.setdefault(occurrence.name, []).append(occurrence)
    if mapping is not None:
        vocabulary = tuple(mapping.values())
        findings.report(_unknown_problems(places, mapping, path))
        if list(mapping) != list(range(len(mapping))):
            moved = [f"{name} {old} -> {new}" for new, (old, name) in enumerate(mapping.items()) if old != new]
            findings.notes.append(f"{path}: ids have gaps and were renumbered: {some(moved, _MOST_NAMES)}")
        unused = [name for name in vocabulary if name not in places]
        if unused:
            findings.notes.append(f"{path}: unused actions ({len(unused)}): {some(unused, _MOST_NAMES)}")
    else:
        vocabulary = tuple(sorted(places))
        numbered = ", ".join(f"{index} {name}" for index, name in enumerate(vocabulary))
        findings.notes.append(f"{path} is missing, built a mapping from the names that occur: {numbered}")
    if vocabulary:
        findings.report(
            replace(problem, place=_place(problem.value, places, path)) if problem.rule == "range" else problem
            for problem in vocabulary_problems(vocabulary, background)
        )
    forms: dict[str, list[str]] = {}
    for name in vocabulary:
        forms.setdefault(unicodedata.normalize("NFKC", name).casefold(), []).append(name)
    findings.notes += [f"actions that look alike: {some(names)}" for names in forms.values() if len(names) > 1]
    if not background:
        likely = [name for name in vocabulary if name.lower() in _LIKE_BACKGROUND]
        findings.notes += [f"{name!r} may be background; if so, pass --background {name}" for name in likely]
    return vocabulary


def _place(name: object, places: Mapping[str, Sequence[Occurrence]], path: Path) -> str:
    """Returns the first place of a name: in labels and transcripts, or else the mapping."""
    return next((found[0].place for known, found in places.items() if known == name), str(path))


def _unknown_problems(
    places: Mapping[str, Sequence[Occurrence]], mapping: Mapping[int, str], path: Path
) -> list[Problem]:
    """Reports each name that is not in the mapping, with its first place; names that are ids as one problem."""
    actions = list(mapping.values())
    unknown = {name: places[name] for name in sorted(set(places) - set(actions))}
    ids = {name: float(name) for name in unknown if re.fullmatch(r"\d+(\.\d*)?(e[+-]?\d+)?", name, re.IGNORECASE)}
    problems = []
    if any(value in mapping for value in ids.values()):
        first = next(iter(ids))
        n_files = len({place.path for name in ids for place in places[name]})
        message = f"ids such as {first!r} in {counted(n_files, 'file')}, expected the names of {path}, not its ids"
        if others := [name for name, value in ids.items() if value not in mapping]:
            message += f"; not in the mapping: {some(others)}"
        place, hint = places[first][0].place, "replace each id by its name"
        problems.append(Problem(rule="type", place=place, value=first, message=message, hint=hint))
        unknown = {name: found for name, found in unknown.items() if name not in ids}
    problems += [
        Problem(
            rule="unknown",
            place=found[0].place,
            value=name,
            message=f"unknown action {name!r}{nearest(name, actions)} in "
            f"{counted(sum(place.lines for place in found), 'line')} of "
            f"{counted(len({place.path for place in found}), 'file')}",
            hint=f"correct it or add it to {path}",
        )
        for name, found in unknown.items()
    ]
    return problems

"""Renames the actions of a store, or merges several into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from storage.editing.edit import Edit, Piece
from storage.editing.union import with_actions
from storage.errors import Problem, StoreError, counted, nearest
from storage.format.records import Record
from storage.format.rules import vocabulary_problems
from storage.names import normal
from storage.reader import Store


def parse_renames(texts: Sequence[str], vocabulary: Sequence[str]) -> dict[str, str]:
    """Returns the new name of each renamed action.

    Args:
        texts: `OLD=NEW`; names may contain `=` themselves.
        vocabulary: actions of the store.

    Raises:
        StoreError: a text of another form, an unknown action, or an action with two new names (all of them).
    """
    renames: dict[str, str] = {}
    problems = []
    for text in texts:
        pieces = normal(text).split("=")
        pairs = [("=".join(pieces[:at]).strip(), "=".join(pieces[at:]).strip()) for at in range(1, len(pieces))]
        known = [(old, new) for old, new in pairs if old in vocabulary]
        if not pairs:
            problems.append(Problem(rule="type", place=text, value=text, expected="OLD=NEW"))
        elif not known:
            message = f"unknown action {pairs[0][0]!r}{nearest(pairs[0][0], vocabulary)}"
            problems.append(Problem(rule="unknown", place=text, value=pairs[0][0], message=message))
        elif len(known) > 1:
            message = "several actions begin this text, one of them with '='"
            hint = "import the data with other names"
            problems.append(Problem(rule="conflict", place=text, value=text, message=message, hint=hint))
        elif known[0][0] in renames:
            message = f"{known[0][0]!r} is renamed twice"
            problems.append(Problem(rule="duplicate", place=text, value=known[0][0], message=message))
        else:
            renames[known[0][0]] = known[0][1]
    if problems:
        raise StoreError(problems)
    return renames


def renamed(store: Store, renames: Mapping[str, str], *, merge: bool) -> Edit:
    """Returns the store with other names of actions; all features stay where they are.

    A merged action has the place of the one that keeps its name, else of the first one. A merge does not join segments:
    an action may follow itself.

    Args:
        store: the store.
        renames: new name of each renamed action.
        merge: whether several actions may get one name.

    Raises:
        StoreError: several actions would get one name without `merge`, or only some of them are background.
    """
    manifest = store.manifest
    sources: dict[str, list[str]] = {}
    for name in manifest.vocabulary:
        sources.setdefault(renames.get(name, name), []).append(name)
    merged = {new: olds for new, olds in sources.items() if len(olds) > 1}
    problems = [
        Problem(
            rule="conflict",
            place=new,
            value=olds,
            message=f"the actions {', '.join(map(repr, olds))} would all be {new!r}",
            hint="pass --merge to merge them",
        )
        for new, olds in merged.items()
        if not merge
    ]
    background = []
    for new, olds in sources.items():
        kept = [new] if new in olds and new not in renames else olds
        kinds = {old in manifest.background for old in kept}
        if len(kinds) > 1:
            message = f"of the actions {', '.join(map(repr, kept))} only some are background"
            problems.append(Problem(rule="conflict", place=new, value=kept, message=message))
        elif True in kinds:
            background.append(new)
    if problems:
        raise StoreError(problems)
    places = {
        new: manifest.vocabulary.index(new if new in olds and new not in renames else olds[0])
        for new, olds in sources.items()
    }
    vocabulary = sorted(sources, key=places.__getitem__)
    order = {name: rank for rank, name in enumerate(manifest.background)}
    ids = [vocabulary.index(renames.get(name, name)) for name in manifest.vocabulary]
    records = [with_actions(record, ids) for record in store.catalogue.records()]
    header = replace(
        manifest.header,
        vocabulary=tuple(vocabulary),
        background=tuple(sorted(background, key=lambda new: min(order.get(old, len(order)) for old in sources[new]))),
    )
    if problems := vocabulary_problems(header.vocabulary, header.background):
        raise StoreError(problems)
    return Edit(
        header=header,
        pieces=(Piece(store=store, records=tuple(records)),),
        lines=tuple(_lines(sources, records, store)),
    )


def _lines(sources: Mapping[str, Sequence[str]], records: Sequence[Record], store: Store) -> list[str]:
    lines = [
        f"{'merges' if len(olds) > 1 else 'renames'} {', '.join(map(repr, olds))} to {new!r}"
        for new, olds in sources.items()
        if olds != [new]
    ]
    before = _with_repetitions(store.catalogue.records())
    after = _with_repetitions(records) - before
    if after:
        lines.append(f"note: in {counted(len(after), 'video')} an action now follows itself; the segments stay apart")
    return lines


def _with_repetitions(records: Sequence[Record]) -> set[str]:
    return {record.id for record in records if any(a == b for a, b in pairwise(record.transcript or ()))}

"""Merges stores into a new one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from storage.constants import MANIFEST
from storage.editing.edit import source_store
from storage.editing.union import united
from storage.errors import Problem, StoreError
from storage.folders import check_target, locked
from storage.layouts import Progress, no_progress
from storage.reader import open_store
from storage.remote.addresses import StorePlace


def merge_stores(
    places: Sequence[StorePlace],
    target: Path,
    *,
    replace: bool = False,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> tuple[str, ...]:
    """Writes a new store with the clips of several stores, which stay as they are.

    Args:
        places: paths or URIs of at least two stores.
        target: folder of the new store.
        replace: whether to replace an existing store at `target`.
        dry_run: only check the stores.
        progress: called for each file and clip.

    Returns:
        Lines about the new store.

    Raises:
        StoreError: see `storage.editing.union.united`; another process edits one of the stores; or the target exists or
            is one of them.
    """
    names = [place if isinstance(place, str) else os.path.realpath(place) for place in places]
    problems = [
        Problem(rule="duplicate", place=name, value=name, message="store is named more than once")
        for number, name in enumerate(names)
        if name in names[:number]
    ]
    if len(names) < 2:
        problems.append(Problem(rule="missing", place="STORE", value=len(names), expected="at least two stores"))
    folder = Path(os.path.realpath(target))
    if any(folder.is_relative_to(name) or Path(name).is_relative_to(folder) for name in names):
        message, hint = "overlaps a merged store", "choose another path; `store append` changes a store in place"
        problems.append(Problem(rule="conflict", place=str(target), value=str(target), message=message, hint=hint))
    if problems:
        raise StoreError(problems)
    check_target(folder, marker=MANIFEST, replace=replace)
    with ExitStack() as stack:
        # Before the stores: of two processes that each merge into a store of the other, one ends and none waits.
        held = None if dry_run else stack.enter_context(locked(folder))
        stores = []
        for place in places:
            store = open_store(place) if dry_run else stack.enter_context(source_store(place))
            stores.append(store or open_store(place))  # which says what is missing
        edit = united(stores)
        edit.check_space(target)
        if not dry_run:
            edit.write(target, progress, held=held, replacing=replace)
        return edit.all_lines

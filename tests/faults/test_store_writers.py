"""Writers of stores that are killed at random moments leave the old store or the new one, and no leftovers.

A moment is the k-th call or return of a Python or C function, so that a seed decides it on every machine.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from storage import open_store
from storage.editing.appending import with_store
from storage.editing.edit import edit_in_place
from storage.editing.merging import merge_stores
from storage.editing.removal import without
from storage.editing.renaming import renamed
from storage.exporting.description import Description
from storage.exporting.ms_tcn import export_store
from storage.importing import import_data
from storage.layouts import no_progress
from storage.layouts.ms_tcn import MsTcn
from storage.verify import verify_store
from tests.storage.helpers import SMALL, DataSet, clips_of, files_of, write_store

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "pandas", "pyarrow.pandas_compat"])  # pyarrow imports them when it writes
MOST_MOMENTS = 100_000
"""More are those of an import, during which nothing is written."""


def replace_by_import(folder: Path) -> None:
    import_data(MsTcn(folder / "data"), folder / "s", replace=True, limits=SMALL)


def append(folder: Path) -> None:
    source = open_store(folder / "t")
    edit_in_place(
        folder / "s", partial(with_store, source=source, new_actions=True), dry_run=False, progress=no_progress
    )


def remove(folder: Path) -> None:
    edit_in_place(folder / "s", partial(without, ids=["v001", "v003"]), dry_run=False, progress=no_progress)


def rename(folder: Path) -> None:
    change = partial(renamed, renames={"pour": "stir"}, merge=True)
    edit_in_place(folder / "s", change, dry_run=False, progress=no_progress)


def merge(folder: Path) -> None:
    merge_stores([folder / "u", folder / "t"], folder / "s", replace=True)


def export(folder: Path) -> None:
    export_store(open_store(folder / "t"), folder / "x", replace=True)


WRITERS = (replace_by_import, append, remove, rename, merge, export)


def _killed_after(moments: int, write: Callable[[Path], None], folder: Path) -> None:
    """Runs a writer and kills the process at one moment."""
    left = moments

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    write(folder)
    sys.setprofile(None)


def _counted(write: Callable[[Path], None], folder: Path, moments: multiprocessing.Queue[int]) -> None:
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1

    sys.setprofile(count)
    write(folder)
    sys.setprofile(None)
    moments.put(seen)


def run(target: Callable[..., None], *arguments: object) -> int | None:
    process = FORKS.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode is not None, "the writer hangs"
    return process.exitcode


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three stores, a dataset and an export, from which every writer begins."""
    folder = tmp_path_factory.mktemp("beginning")
    write_store(folder / "s", clips_of([40, 30, 60, 90, 8]))
    write_store(folder / "u", clips_of([40, 30, 60, 90, 8]))
    write_store(folder / "t", {f"w{id}": values for id, values in clips_of([9, 80, 7], seed=1).items()})
    DataSet.example((12, 15, 9, 20), dim=4).write(folder / "data")
    export_store(open_store(folder / "u"), folder / "x")
    return folder


@pytest.fixture(scope="module")
def lasting(beginning: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], None]], int]:
    """Returns the number of moments of a writer."""
    known: dict[Callable[[Path], None], int] = {}

    def count(write: Callable[[Path], None]) -> int:
        if write not in known:
            folder = shutil.copytree(beginning, tmp_path_factory.mktemp("counted") / "all")
            moments: multiprocessing.Queue[int] = FORKS.Queue()
            assert run(_counted, write, folder, moments) == 0
            known[write] = moments.get()
            assert known[write] < MOST_MOMENTS
        return known[write]

    return count


def state(folder: Path) -> dict[str, bytes]:
    """The result of a writer, without hidden leftovers: the store and the export."""
    return {f"{name}/{file}": data for name in ("s", "x") for file, data in files_of(folder / name).items()}


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@pytest.mark.repeated(ci=20, soak=200)
def test_a_writer_that_is_killed_at_a_random_moment_leaves_the_old_or_the_new_state(
    tmp_path: Path, beginning: Path, lasting: Callable[[Callable[[Path], None]], int], write, repetition: int
) -> None:
    folder = shutil.copytree(beginning, tmp_path / "all")
    old = state(folder)
    moment = random.Random(f"{write.__name__} {repetition}").randint(1, lasting(write))
    status = run(_killed_after, moment, write, folder)
    assert status in (0, -signal.SIGKILL)
    killed = state(folder)
    assert not verify_store(folder / "s").problems
    assert Description.is_at(folder / "x")
    if killed == old:  # the next writer succeeds
        write(folder)
    new = state(folder)
    assert new != old
    assert killed in (old, new)
    (export if write is export else rename)(folder)  # removes what is left of a writer that was killed after its work
    assert sorted(path.name for path in folder.iterdir()) == ["data", "s", "t", "u", "x"]

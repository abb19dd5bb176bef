"""Kills a search again and again, also on a full disk; its study ends as that of an undisturbed one."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg2
import pytest

from sweeps.service.search.points import SearchHistory
from sweeps.service.triage.causes import UnwritableError
from tests.helpers.services import PostgreSQL
from tests.helpers.simulated_searches import NESTED, queue_on, run, search_of

ROOT = Path(__file__).parents[2]
SEARCH = search_of(NESTED, trials=16, seeds=2, rungs=(0.5,))
PROGRAM = """
    import pathlib, resource, signal, sys
    from tests.faults.test_search_study import SEARCH
    from tests.helpers.simulated_searches import hill, queue_on, run
    place, limit = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    def objective(job):
        print(job.point.number, flush=True)
        return hill(job)
    try:
        run(queue_on(place, SEARCH), objective)
    except OSError as error:
        print("full", error.errno, flush=True)
"""


def program(place: Path, limit: int = 0) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(place), str(limit)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def undisturbed(folder: Path) -> SearchHistory:
    queue = queue_on(folder / "undisturbed", SEARCH)
    run(queue)
    return queue.history()


@pytest.mark.repeated(ci=1, soak=20)
def test_a_search_that_is_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path, repetition: int) -> None:
    moments = random.Random(repetition)
    for _ in range(3):
        with program(tmp_path / "study") as process:
            assert process.stdout is not None
            for _ in range(moments.randint(1, 11)):
                process.stdout.readline()
            process.kill()
    queue = queue_on(tmp_path / "study", SEARCH)
    run(queue)
    assert queue.history() == undisturbed(tmp_path)


def test_a_search_on_a_full_disk_stops_with_a_whole_study_and_continues(tmp_path: Path) -> None:
    study = tmp_path / "study"
    for limit in (5_000, 12_345):
        with program(study, limit) as process:
            said = process.communicate()[0].splitlines()
        assert said[-1].startswith("full")
        assert study.stat().st_size < limit
        assert study.read_bytes().endswith(b"}\n")
    queue = queue_on(study, SEARCH)
    run(queue)
    assert queue.history() == undisturbed(tmp_path)


@pytest.mark.service
def test_a_study_in_postgresql_survives_a_restart_and_an_outage_of_the_server(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    with contextlib.closing(psycopg2.connect(postgresql.uri.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        connection.cursor().execute("CREATE DATABASE studies")
    url = postgresql.uri.replace("/mlflow", "/studies").replace("sweep@", "sweep:s3cret-word@")
    queue = queue_on(url, SEARCH)
    run(queue, most=4)
    postgresql.stop()
    with pytest.raises(UnwritableError) as outage:
        run(queue)
    assert "s3cret" not in str(outage.value)
    postgresql.start()
    queue = queue_on(url, SEARCH)
    run(queue, most=3)
    postgresql.stop()
    postgresql.start()
    run(queue)
    assert queue.history() == undisturbed(tmp_path)

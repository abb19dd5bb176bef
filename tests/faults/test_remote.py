"""Remote stores under kills, full disks, two writers, and servers that go away."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import StoreError, open_store
from storage.remote.cache import UNFINISHED, Cache, files_of
from storage.remote.uploading import target_of, upload
from storage.verify import verify_store
from sweeps.service.plan.plan import FILE
from sweeps.service.plan.recordings import split_data
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.object_stores import CREDENTIALS, S3Server
from tests.helpers.refusals import refused
from tests.helpers.remote_stores import Site, site_of
from tests.storage.helpers import clips_of, write_store
from tests.sweeps import small

OLD, NEW = clips_of([30, 40, 50, 60, 70] * 3), clips_of([20, 80, 30, 70] * 4, seed=1)
OPEN = "import sys; from storage.cli import main; sys.exit(main(['verify', sys.argv[1]]))"
UPLOAD = """
import sys
from pathlib import Path
from storage.remote.uploading import upload
upload(Path(sys.argv[2]), sys.argv[1], replace=True)
"""


def started(code: str, *words: str, before: Callable[[], None] | None = None, **more: str) -> subprocess.Popen[str]:
    """Starts Python code in a process."""
    return subprocess.Popen(
        [sys.executable, "-B", "-c", code, *words],
        env={**os.environ, "PYTHONPATH": str(small.ROOT), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


def ended(code: str, *words: str, **more: Any) -> tuple[int, str]:
    """Runs Python code in a process; its exit status and its errors."""
    process = started(code, *words, **more)
    errors = process.communicate(timeout=120)[1]
    return process.returncode, errors


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache."""
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path, cache: Path) -> Iterator[Site]:
    """A web server of a store."""
    write_store(tmp_path / "site" / "tug", OLD)
    with site_of(tmp_path / "site") as site:
        yield site


def check_cache() -> None:
    """The cache has no half of a file, and each complete store verifies."""
    whole = Cache.configured()
    for one in whole.stores():
        if one.manifest is None:  # killed while it wrote the manifest: nothing has been fetched
            assert {path.name for path in whole.store(one.sha256).iterdir()} <= {UNFINISHED}
            continue
        for entry in files_of(one.manifest):
            path = whole.store(one.sha256) / entry.file
            assert not path.exists() or path.stat().st_size == entry.bytes
        if one.is_complete:
            assert not verify_store(whole.store(one.sha256)).problems


def test_processes_that_open_a_store_at_once_fetch_each_file_once(site: Site) -> None:
    processes = [started(OPEN, site.uri("tug")) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    for process in processes:
        process.communicate()
    assert site.asked.pop("manifest.json") == 4
    assert set(site.asked.values()) == {1}


@pytest.mark.repeated(ci=20, soak=200)
def test_a_process_killed_while_it_fetches_leaves_a_cache_that_the_next_one_completes(
    site: Site, tmp_path: Path, repetition: int
) -> None:
    chosen = random.Random(repetition)
    moment, most = chosen.choice([("block", 4), ("file", 4), ("publish", 1)])
    if repetition % 2:
        failpoint = f"storage.cache.{moment}:{chosen.randint(1, most)}:kill"
        assert ended(OPEN, site.uri("tug"), MUCON_FAILPOINT=failpoint)[0] == -signal.SIGKILL
    else:
        moment, site.before = "any", lambda _: time.sleep(0.02)
        process = started(OPEN, site.uri("tug"))
        small.wait_until(lambda: bool(site.asked))
        time.sleep(chosen.uniform(0, 0.15))
        process.kill()
        process.communicate()
    check_cache()
    asked = sum(site.asked.values())
    store = open_store(site.uri("tug"))
    assert all(np.array_equal(store.features(id), OLD[id]) for id in OLD)
    check_cache()
    assert moment != "publish" or sum(site.asked.values()) == asked + 1, "finished files are not fetched again"
    assert not list((tmp_path / "cache" / "objects").glob("*.part"))


def test_a_process_killed_while_it_removes_a_store_leaves_nothing_that_counts_or_stays(
    site: Site, tmp_path: Path, cache: Path
) -> None:
    write_store(tmp_path / "site" / "other", NEW)
    assert ended(OPEN, site.uri("tug"))[0] == 0
    clear = OPEN.replace("['verify', sys.argv[1]]", "['cache', 'clear']")
    assert ended(clear, MUCON_FAILPOINT="storage.cache.remove:1:kill")[0] == -signal.SIGKILL
    store = open_store(site.uri("other"))
    assert len(list((cache / "objects").iterdir())) == len(files_of(store.manifest))
    assert [one.addresses for one in Cache.configured().stores()] == [(site.uri("other"),)]


def test_a_disk_that_is_full_is_one_problem_and_leaves_nothing_half_cached(site: Site, cache: Path) -> None:
    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))  # larger than the manifest and the last shard

    status, errors = ended(OPEN, site.uri("tug"), before=little_room)
    (line,) = errors.splitlines()
    assert status == 2
    assert line.startswith(f"error: {cache}: ")
    assert [*(cache / "objects").iterdir(), *(cache / "stores").iterdir()] == []
    assert open_store(site.uri("tug")).ids == tuple(OLD)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server with an empty bucket."""
    server = S3Server()
    yield server
    server.kill()


@pytest.fixture
def bucket(s3: S3Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with its credentials in the environment."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.mark.service
@pytest.mark.parametrize(
    ("moment", "is_new"),
    [("upload.file:1", False), ("upload.file:3", False), ("upload.publish:1", False), ("upload.published:1", True)],
)
def test_a_writer_killed_while_it_replaces_a_store_leaves_the_old_or_the_new_one(
    bucket: S3Server, tmp_path: Path, moment: str, is_new: bool
) -> None:
    name = moment.replace(":", "-")
    uri = bucket.uri(name)
    upload(write_store(tmp_path / "old", OLD), uri)
    before = bucket.names(name)
    new = write_store(tmp_path / "new", NEW)
    assert ended(UPLOAD, uri, str(new), MUCON_FAILPOINT=f"storage.{moment}:kill")[0] == -signal.SIGKILL
    assert open_store(uri).ids == tuple(NEW if is_new else OLD)
    assert set(bucket.names(name)) > set(before)
    upload(new, uri, replace=True)
    store = open_store(uri)
    assert store.ids == tuple(NEW)
    assert bucket.names(name) == sorted(["manifest.json", *(entry.file for entry in files_of(store.manifest))])


@pytest.mark.service
def test_two_writers_of_a_uri_remove_none_of_the_other_s_files(bucket: S3Server, tmp_path: Path) -> None:
    uri = bucket.uri("two")
    old, new = write_store(tmp_path / "old", OLD), write_store(tmp_path / "new", NEW)
    slow = started(UPLOAD, uri, str(new), MUCON_FAILPOINT="storage.upload.publish:1:stop")
    small.wait_until(lambda: "T" in Path(f"/proc/{slow.pid}/stat").read_text().rpartition(")")[2].split()[0])
    upload(old, uri)
    assert open_store(uri).ids == tuple(OLD)
    slow.send_signal(signal.SIGCONT)
    assert slow.wait(120) == 0, slow.communicate()[1]
    slow.communicate()
    store = open_store(uri)
    assert store.ids == tuple(NEW)
    assert all(np.array_equal(store.features(id), NEW[id]) for id in NEW)
    with refused("exists", place=uri, n=1, error=StoreError), target_of(uri):
        raise AssertionError


@pytest.mark.service
def test_a_server_that_ends_in_the_middle_is_one_problem_and_the_same_command_goes_on(
    bucket: S3Server, cache: Path, tmp_path: Path
) -> None:
    local = write_store(tmp_path / "tug", clips_of([30, 40, 50, 60, 70] * 12))  # more files than threads
    uri = bucket.put(local, "middle")
    process = started(OPEN, uri, MUCON_FAILPOINT="storage.cache.file:1:stop")
    small.wait_until(lambda: "T" in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0])
    bucket.kill()
    process.send_signal(signal.SIGCONT)
    errors = process.communicate(timeout=120)[1]
    (line,) = errors.splitlines()
    assert (process.returncode, line.partition(uri)[0]) == (2, "error: ")
    assert not any(secret in line for secret in CREDENTIALS.values())
    check_cache()
    assert list((cache / "objects").iterdir())
    bucket.start()
    bucket.put(local, "middle")
    assert ended(OPEN, uri) == (0, "")


@pytest.mark.service
def test_a_sweep_trains_from_s3_with_the_identities_of_the_local_store_and_records_no_secret(
    bucket: S3Server, tmp_path: Path, empty_mlflow_database: Path
) -> None:
    local, results, uri = small.make_store(tmp_path / "store"), tmp_path / "results", bucket.uri("sweep")
    upload(local, uri)
    shutil.copy(empty_mlflow_database, tmp_path / "mlflow.db")
    line = small.command(
        small.own_script(tmp_path, "remote", {"one": {}}), local, results, "--set", "training.epochs=1"
    )
    line[line.index(str(local))] = uri
    done = small.run(line)
    assert (done.returncode, done.stderr) == (0, "")
    (identity,) = small.weights(results)
    trial = json.loads((results / "trials" / identity / "trial.json").read_text())
    assert trial["store"] == json.loads((ResultsFolder(results).sweep("remote") / FILE).read_text())["store"] == uri
    assert trial["data_fingerprint"] == split_data(open_store(local), "1").fingerprint
    for path in (*results.rglob("*"), tmp_path / "mlflow.db"):
        assert not path.is_file() or CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() not in path.read_bytes(), path

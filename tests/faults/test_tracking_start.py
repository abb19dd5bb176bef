"""What is no tracking server is refused before anything runs."""

from __future__ import annotations

import shutil
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mucon.errors import InputError
from sweeps.service.track import probe
from sweeps.service.track.tracker import Tracker
from tests.helpers.planted_tracking import INFO, statuses
from tests.helpers.refusals import refused
from tests.helpers.services import MLflowServer, PostgreSQL, wait_until
from tests.helpers.tracked import EXPERIMENT
from tests.sweeps import small

pytestmark = pytest.mark.service


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """The address of a listener that answers every connection with some bytes, or never."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if answer is not None:
                connection.recv(65536)
                connection.sendall(answer)
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    for end in (listener, *held):
        end.close()


def http_answer(status: str, body: str) -> bytes:
    return f"HTTP/1.0 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (http_answer("200 OK", "<html>a page</html>"), "type"),
        (http_answer("200 OK", 100_000 * "["), "type"),
        (http_answer("404 Not Found", '{"detail": "Not Found"}'), "type"),
        (http_answer("500 Internal", '{"error_code": "INTERNAL_ERROR", "message": "no database"}'), "unreachable"),
        (b"\x15\x03\x01\x00\x02\x02\x50", "unreachable"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "unreachable"),
        (b"", "unreachable"),
        (None, "unreachable"),
    ],
)
def test_what_is_no_mlflow_server_is_refused(answer: bytes | None, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 1.0)
    with answering(answer) as uri, refused(rule, place="--tracking-uri", value=uri, n=1):
        probe.probe(uri, EXPERIMENT)


def test_a_server_that_asks_for_a_login_is_left_to_mlflows_client_and_refused_by_it() -> None:
    with answering(http_answer("401 Unauthorized", "You are not authenticated")) as uri:
        assert not probe.probe(uri, EXPERIMENT)
        with refused("unreachable", place="--tracking-uri", value=uri, n=1):
            Tracker(uri, EXPERIMENT, INFO).check()


def test_a_server_that_is_frozen_is_told_apart_from_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with answering(None) as uri, pytest.raises(InputError) as frozen:
        Tracker(uri, EXPERIMENT, INFO).open()
    assert str(frozen.value.__cause__) == "no answer in time"


OPENS = """
import sys
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.tracker import Tracker
Tracker(sys.argv[1], "mucon", SweepInfo(name="one", title="t", command="c", config={})).open()
"""


def test_a_new_database_is_whole_at_any_time_and_the_first_of_two_processes_makes_it(tmp_path: Path) -> None:
    link, path = tmp_path / "mlflow.db", tmp_path / "disk" / "runs.db"
    path.parent.mkdir()
    link.symlink_to(path)
    leave_journal(path)
    uri = f"sqlite:///{link}"
    line = [sys.executable, "-c", OPENS, uri]
    with small.started(line, tmp_path / "log", MUCON_FAILPOINT="sweeps.tracking.database:1:stop") as second:
        wait_until(lambda: state_of(second.pid) == "T", 120, "the moment before the database gets its place")
        assert not path.exists(), "a kill would leave nothing"
        Tracker(uri, EXPERIMENT, INFO).open()
        second.send_signal(signal.SIGCONT)
        assert second.wait(120) == 0, (tmp_path / "log").read_text()
    assert statuses(uri, "sweep") == {INFO.name: "RUNNING", "one": "RUNNING"}
    assert link.is_symlink()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def leave_journal(path: Path) -> None:
    """Removes a database whose writer was killed within a transaction; its journal stays."""
    kept = path.with_name("kept")
    with closing(sqlite3.connect(path)) as old:
        old.execute(
            "create table runs as with recursive n(i) as (select 1 union select i + 1 from n where i < 2000)"
            " select i, hex(randomblob(50)) as text from n"
        )
        old.commit()
        old.execute("pragma cache_size = 1")  # so that the journal is on the disk before the end
        old.execute("update runs set text = 'other'")
        shutil.copyfile(f"{path}-journal", kept)
    path.unlink()
    kept.rename(f"{path}-journal")


def state_of(pid: int) -> str:
    """Letter of the process's state, such as T for a frozen one."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_database_that_is_missing_or_locked_or_of_another_program_is_refused(
    tmp_path: Path,
    postgresql: PostgreSQL,
    mlflow_server: MLflowServer,
    mlflow_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 2.0)
    for uri in (mlflow_server.uri, postgresql.uri, mlflow_uri, f"sqlite:///{tmp_path}/new.db"):
        assert probe.probe(uri, EXPERIMENT)
    assert not (tmp_path / "new.db").exists()
    missing = postgresql.uri.replace("/mlflow", "/nothing")
    with refused("unreachable", place="--tracking-uri", value=missing, n=1):
        probe.probe(missing, EXPERIMENT)
    with refused("missing", place="--tracking-uri", n=1):
        probe.probe("mysql://u@127.0.0.1/mlflow", EXPERIMENT)
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("create table songs (title)")
    with refused("type", place="--tracking-uri", n=1):
        probe.probe(f"sqlite:///{tmp_path}/other.db", EXPERIMENT)
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("begin exclusive")
        with refused("unreachable", place="--tracking-uri", value=mlflow_uri, n=1):
            probe.probe(mlflow_uri, EXPERIMENT)

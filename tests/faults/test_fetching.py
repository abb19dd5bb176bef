"""Downloads of archives from a local server that fails in every way that servers and disks do."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.cli import main
from storage.errors import StoreError
from storage.remote import fetching, unpacking
from storage.remote.fetching import ARCHIVES, fetch
from tests.helpers.archive_servers import Publisher, archive_of, published, released
from tests.helpers.refusals import refused
from tests.storage.helpers import files_of

ROOT = Path(__file__).parents[2]
FILES = released()
WANTED = {name.removeprefix("breakfast/"): content for name, content in FILES.items() if name.startswith("breakfast/")}


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setattr(fetching, "WAIT_SECONDS", 0.0)
    with published(archive_of(FILES)) as publisher:
        yield publisher


def fetched(publisher: Publisher, target: Path, *, archive_only: bool = False) -> list[str]:
    """What is said during a download."""
    lines: list[str] = []
    fetch(
        ARCHIVES["breakfast"],
        target,
        server=publisher.address,
        archive_only=archive_only,
        say=lines.append,
        progress=lambda *_: None,
    )
    return lines


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_archive_is_downloaded_unpacked_and_can_be_imported(publisher, tmp_path, capsys):
    assert main(["fetch", "breakfast", str(tmp_path / "data"), "--server", publisher.address]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert f"mucon store import {tmp_path / 'data'} stores/breakfast " in last
    assert files_of(tmp_path / "data") == WANTED
    assert left(tmp_path) == ["data"]
    assert publisher.ranges == [None]


def test_a_download_continues_where_the_connection_broke(publisher, tmp_path):
    size = len(publisher.content)
    publisher.breaks = [size // 2, 10, size // 8]
    said = fetched(publisher, tmp_path / "data")
    assert publisher.ranges == [None, *(f"bytes={n}-" for n in (size // 2, size // 2 + 10, size // 2 + 10 + size // 8))]
    assert len(said) == 3
    assert files_of(tmp_path / "data") == WANTED


def test_without_ranges_a_download_starts_over_and_says_so(publisher, tmp_path):
    publisher.has_ranges = False
    publisher.breaks = [len(publisher.content) // 2]
    said = fetched(publisher, tmp_path / "data")
    assert (len(publisher.ranges), len(said)) == (2, 2)
    assert files_of(tmp_path / "data") == WANTED


def test_a_server_that_stays_away_is_an_error_and_the_next_call_continues(publisher, tmp_path):
    half = len(publisher.content) // 2
    publisher.breaks = [half]
    publisher.status = []
    with refused("unreachable", n=1):
        publisher.breaks += [0] * fetching.ATTEMPTS
        fetched(publisher, tmp_path / "data")
    assert left(tmp_path) == [".data.fetching"]
    publisher.ranges.clear()
    fetched(publisher, tmp_path / "data")
    assert publisher.ranges == [f"bytes={half}-"]
    assert files_of(tmp_path / "data") == WANTED
    assert left(tmp_path) == ["data"]


def test_a_busy_server_is_asked_again_and_one_without_the_file_is_not(publisher, tmp_path):
    publisher.status = [503, 429]
    fetched(publisher, tmp_path / "data")
    assert len(publisher.ranges) == 3
    publisher.status = [404]
    with refused("unreachable", n=1):
        fetched(publisher, tmp_path / "other")
    assert len(publisher.ranges) == 4


def test_a_file_that_changes_between_two_calls_is_downloaded_from_its_beginning(publisher, tmp_path):
    old = publisher.content
    publisher.breaks = [len(old) // 2, *[0] * fetching.ATTEMPTS]
    with refused("unreachable", n=1):
        fetched(publisher, tmp_path / "data")
    publisher.content = archive_of({**FILES, "breakfast/mapping.txt": b"0 SIL\n1 pour\n2 stir\n"})
    publisher.ranges.clear()
    fetched(publisher, tmp_path / "data")
    assert publisher.ranges == [None]
    assert (tmp_path / "data" / "mapping.txt").read_text().count("\n") == 3


def test_a_file_that_changes_under_a_download_is_refused(publisher, tmp_path, monkeypatch):
    """The record is of the old file; the new one has the same size."""
    old = publisher.content
    publisher.stated = {"checksum": fetching._expected(ARCHIVES["breakfast"], publisher.address).checksum}
    publisher.breaks = [len(old) // 2]
    monkeypatch.setattr(fetching.time, "sleep", lambda _: setattr(publisher, "content", bytes(len(old) - 9) + old[-9:]))
    with refused("damaged", f"{publisher.address}{ARCHIVES['breakfast'].path}", n=1):
        fetched(publisher, tmp_path / "data")
    assert left(tmp_path / ".data.fetching") == [fetching.STATE]
    publisher.content = old
    fetched(publisher, tmp_path / "data")
    assert files_of(tmp_path / "data") == WANTED


@pytest.mark.parametrize(
    ("stated", "rule"),
    [
        ({"checksum": "md5:0123"}, "damaged"),
        ({"size": 17}, "mismatch"),
        ({"checksum": "crc32:0123"}, "unsupported"),
        ({"key": "other.zip"}, "unsupported"),
    ],
)
def test_a_file_with_another_checksum_or_size_than_its_record_is_refused(publisher, tmp_path, stated, rule):
    publisher.stated = stated
    with refused(rule, n=1):
        fetched(publisher, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_too_little_space_is_reported_before_the_download(publisher, tmp_path):
    publisher.stated = {"size": 10**15}
    with refused("unwritable", str(tmp_path / ".data.fetching"), n=1):
        fetched(publisher, tmp_path / "data")
    assert publisher.ranges == []


def test_a_disk_that_becomes_full_is_one_line_and_the_next_call_continues(publisher, tmp_path):
    limit = len(publisher.content) // 2

    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    line = [sys.executable, "-m", "storage", "fetch", "breakfast", str(tmp_path / "data"), "--server"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*line, publisher.address], capture_output=True, text=True, preexec_fn=before, env=environment, check=False
    )
    assert done.returncode == 2
    (error,) = done.stderr.splitlines()
    assert error.startswith(f"error: {tmp_path / '.data.fetching' / 'breakfast_i3d.zip.part'}: ")
    publisher.ranges.clear()
    fetched(publisher, tmp_path / "data")
    assert publisher.ranges == [f"bytes={limit}-"]
    assert files_of(tmp_path / "data") == WANTED


def test_a_folder_that_cannot_be_written_is_no_lost_connection(publisher, tmp_path):
    state = tmp_path / ".data.fetching" / fetching.STATE
    state.mkdir(parents=True)
    with refused("unwritable", f"{state}.new", n=1):
        fetched(publisher, tmp_path / "data")
    assert publisher.ranges == []
    (tmp_path / "file").touch()
    with refused("unwritable", n=1):
        fetched(publisher, tmp_path / "file" / "data")


@pytest.mark.parametrize("server", ["http://user:secret@localhost", "localhost:8000", "file:///etc", ""])
def test_a_mirror_is_an_address_without_a_password(tmp_path, server, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fetch", "breakfast", str(tmp_path / "data"), "--server", server])
    assert ended.value.code == 2
    assert "secret" not in "".join(capsys.readouterr())
    assert left(tmp_path) == []


@pytest.mark.parametrize("point", ["storage.fetching.chunk", "storage.fetching.complete", "storage.writer.publish"])
def test_a_killed_download_continues(publisher, tmp_path, point):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MUCON_FAILPOINT": f"{point}:1:kill"}
    line = [sys.executable, "-m", "storage", "fetch", "breakfast", str(tmp_path / "data"), "--server"]
    done = subprocess.run([*line, publisher.address], capture_output=True, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "data").exists()
    publisher.ranges.clear()
    fetched(publisher, tmp_path / "data")
    assert files_of(tmp_path / "data") == WANTED
    assert left(tmp_path) == ["data"]
    assert len(publisher.ranges) == (point == "storage.fetching.chunk")


def test_an_archive_can_be_kept_and_unpacked_later(publisher, tmp_path):
    fetched(publisher, tmp_path / "data", archive_only=True)
    assert files_of(tmp_path / "data") == {"breakfast_i3d.zip": publisher.content}
    fetched(publisher, tmp_path / "data")
    assert files_of(tmp_path / "data") == WANTED
    assert len(publisher.ranges) == 1
    with refused("exists", str(tmp_path / "data"), n=1):
        fetched(publisher, tmp_path / "data")


def test_a_second_process_and_an_unknown_dataset_are_refused(publisher, tmp_path, capsys):
    with fetching._working_folder(tmp_path / "data"), refused("busy", str(tmp_path / "data"), n=1):
        fetched(publisher, tmp_path / "data")
    assert left(tmp_path) == []
    assert main(["fetch", "brekfast", str(tmp_path / "data")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'breakfast'" in line


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "a\\x", "c:x"])
def test_a_path_outside_the_folder_is_refused(publisher, tmp_path, name):
    publisher.content = archive_of({**FILES, name: b"x"})
    with refused("unsupported", value=name, n=1):
        fetched(publisher, tmp_path / "data")
    assert left(tmp_path) == [".data.fetching"]


def test_a_link_a_bomb_and_an_archive_without_the_data_are_refused(publisher, tmp_path, monkeypatch):
    publisher.content = archive_of({"breakfast/mapping.txt": bytes(10**6)})
    with refused("range", value=10**6, n=1):
        fetched(publisher, tmp_path / "data")
    publisher.content = archive_of({"breakfast/readme.txt": b"x"})
    with refused("missing", value="mapping.txt", n=1):
        fetched(publisher, tmp_path / "data")
    publisher.content = b"PK no archive"
    with refused("unreadable", n=1):
        fetched(publisher, tmp_path / "data")
    monkeypatch.setattr(unpacking.stat, "S_IFMT", lambda _: unpacking.stat.S_IFLNK)
    publisher.content = archive_of({"breakfast/mapping.txt": b"x"})
    with refused("unsupported", value="breakfast/mapping.txt", n=1):
        fetched(publisher, tmp_path / "data")
    assert left(tmp_path) == [".data.fetching"]


def test_a_damaged_member_leaves_no_folder(publisher, tmp_path):
    content = bytearray(publisher.content)
    content[len(content) // 2] ^= 0xFF
    publisher.content = bytes(content)
    with pytest.raises(StoreError) as caught:
        fetched(publisher, tmp_path / "data")
    assert caught.value.problems[0].rule == "unreadable"
    assert left(tmp_path) == [".data.fetching"]

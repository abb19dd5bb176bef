"""The journal: complete lines only, each epoch once."""

import json
import math
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.service.trials import journal
from sweeps.service.trials.journal import Journal

RECORDS = st.lists(
    st.dictionaries(st.text(max_size=4), st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)),
    max_size=6,
)


def test_a_journal_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "journal.jsonl") == ([], None)


@given(records=RECORDS)
def test_appended_records_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    with Journal(path) as written:
        for record in records:
            written.append({"kind": "note", "body": record})
    assert [record["body"] for record in journal.read(path)[0]] == records


@given(records=RECORDS, data=st.data())
def test_a_journal_that_is_cut_anywhere_keeps_its_complete_lines_and_can_be_continued(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    with Journal(path) as written:
        for record in records:
            written.append({"kind": "note", "body": record})
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = records[: whole[:cut].count(b"\n")]
    assert [record["body"] for record in journal.read(path)[0]] == kept
    with Journal(path) as written:
        written.append({"kind": "note", "body": {"after": 1.0}})
    assert [record["body"] for record in journal.read(path)[0]] == [*kept, {"after": 1.0}]


def test_an_epoch_that_is_trained_again_keeps_its_first_record(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written:
        assert written.epoch(1, {"loss": 2.0})
        assert written.epoch(2, {"loss": 1.5})
    before = path.read_bytes()
    with Journal(path) as written:
        assert not written.epoch(2, {"loss": 1.5})
        assert path.read_bytes() == before
        assert written.epoch(3, {"loss": 1.0})
    assert [record["step"] for record in journal.read(path)[0]] == [1, 2, 3]


def test_a_value_that_is_not_finite_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written:
        for value in (math.nan, math.inf):
            with pytest.raises(ValueError, match="not JSON compliant"):
                written.epoch(1, {"loss": value})
    assert path.read_bytes() == b""


def test_every_record_of_a_killed_writer_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    program = """
        import os, pathlib, signal, sys
        from sweeps.service.trials.journal import Journal
        written = Journal(pathlib.Path(sys.argv[1]))
        written.epoch(1, {"loss": 1.0})
        written.status("running", reason=None, host="here", pid=7)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(path)], check=False)
    assert ended.returncode == -9
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["kind"] for record in records] == ["epoch", "status"]
    assert journal.last_status(records) == records[1]

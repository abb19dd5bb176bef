"""Sweeps whose trials fail in several ways: the others finish, and every command names the reasons."""

import json
from collections import Counter
from pathlib import Path

import pytest

from storage.failpoints import VARIABLE
from sweeps.service.cli import main
from sweeps.service.triage.status import CellStatus, sweep_status
from sweeps.service.trials.results_folder import ResultsFolder
from tests.sweeps import small

pytestmark = pytest.mark.service

ROWS: dict[str, dict[str, object]] = {
    "good": {"mask.shape": "box"},
    "diverges": {"training.learning_rate": 1e6},
    "raises": {"loss.smoothing": 0.21},
    "memory": {"loss.smoothing": 0.22},
    "fine": {"mask.shape": "bell"},
}


def failpoints(store: Path, rows: dict[str, str]) -> str:
    """The setting with which the trials of some rows fail; row -> action."""
    trials = {row: small.make_trial(store, **{k.replace(".", "__"): v for k, v in ROWS[row].items()}) for row in rows}
    return ",".join(f"sweeps.worker.begun.{trials[row].identity}:1:{action}" for row, action in rows.items())


def cells(results: Path, name: str) -> dict[str, CellStatus]:
    return {cell.row: cell for cell in sweep_status(ResultsFolder(results), name).cells}


def output(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> str:
    """What a command prints, which ends with a status and no error."""
    capsys.readouterr()
    assert main(None, list(words)) == status
    return capsys.readouterr().out


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.repeated(ci=1, soak=20)
def test_the_table_the_groups_the_logs_and_a_repetition_name_the_reason_of_every_failure(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    line = small.untracked(small.command(small.own_script(tmp_path, "mixed", ROWS), tiny_store, results))
    failing = failpoints(tiny_store, {"raises": "raise", "memory": "memory"})
    ran = small.run([*line, "--max-concurrent", "1"], **{VARIABLE: failing})
    assert ran.returncode == 3
    found = cells(results, "mixed")
    assert {row: str(cell.state) for row, cell in found.items()} == {
        **{"good": "finished", "fine": "finished", "diverges": "diverged"},
        **{"raises": "failed", "memory": "failed"},
    }
    failures = {row: cell.failure for row, cell in found.items() if cell.failure is not None}
    assert {row: failure.exception for row, failure in failures.items()} == {
        **{"raises": "FailpointError", "memory": "MemoryError", "diverges": "Diverged"}
    }
    assert failures["diverges"].file == "mucon/training/loop.py"
    groups = {
        group.example.partition(",")[0]: group for group in sweep_status(ResultsFolder(results), "mixed").failures
    }
    assert {row: group.cause for row, group in groups.items()} == {
        **{"raises": "FailpointError", "memory": "out of memory", "diverges": "diverged"}
    }
    where = ["--results", str(results)]
    shown = output(capsys, 3, "status", "mixed", *where)
    for row, group in groups.items():
        assert f"debug {results / 'trials' / found[row].identity}" in ran.stdout
        assert group.title in ran.stdout
        assert group.title in shown
    page = (results / "sweeps" / "mixed" / "mixed.html").read_text()
    assert all(f"trials/{found[row].identity}" in page for row in groups)

    logs = output(capsys, 0, "logs", "mixed", *where)
    assert all(found[row].identity in logs for row in groups)
    assert found["good"].identity not in logs
    explained = json.loads(output(capsys, 3, "status", "--json", "--why", "raises/1/1", *where))
    assert (explained["state"], explained["identity"]) == ("failed", found["raises"].identity)

    identity = found["raises"].identity
    before = files(results / "trials" / identity)
    assert output(capsys, 0, "debug", identity, *where).splitlines()[-1] == "finished"
    monkeypatch.setenv(VARIABLE, failing)
    monkeypatch.setattr("storage.failpoints._reached", Counter())  # each repetition starts from 0
    said = json.loads(output(capsys, 3, "debug", identity, "--json", *where))
    assert (said["state"], said["failure"]["exception"]) == ("failed", "FailpointError")
    assert files(results / "trials" / identity) == before


@pytest.mark.repeated(ci=1, soak=20)
def test_a_sweep_stops_after_identical_failures(tiny_store: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    rows = ("raises", "memory", "good", "fine")
    script = small.own_script(tmp_path, "same", {row: ROWS[row] for row in rows})
    line = small.untracked(small.command(script, tiny_store, results))
    line += ["--stop-after-failures", "2", "--max-concurrent", "1"]
    ran = small.run(line, **{VARIABLE: failpoints(tiny_store, dict.fromkeys(("raises", "memory"), "raise"))})
    assert ran.returncode == 3
    states = {row: str(cell.state) for row, cell in cells(results, "same").items()}
    assert [states[row] for row in ("raises", "memory")] == ["failed", "failed"]
    assert "finished" not in states.values()
    (group,) = sweep_status(ResultsFolder(results), "same").failures
    assert [group.title in line for line in ran.stdout.splitlines() if line.startswith("stopped")] == [True]

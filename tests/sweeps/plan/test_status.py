"""What `mucon-sweeps status`, `stop` and `history` read from results folders."""

import json
import os
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.plan.status import CellStatus, sweep_status
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials import lease
from sweeps.service.trials.folder import FORMAT_VERSION
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import STOP_FILE, ResultsFolder
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import write_trial


def score(row: str, split: str, seed: int, prediction: str) -> float:
    return 0.5


def plant(results: Path, name: str, rows: str) -> ResultsFolder:
    """Two seeds of each row; seed 2 of row a has failed and seed 2 of row b is stopped."""
    shape = Experiment(
        name=name,
        title=name,
        label_titles=("Row",),
        variants=tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate(rows)),
        columns=(Column(metric="mof"),),
    )
    unfinished = {("a", "1", 2): Unfinished("failed", "no cake"), ("b", "1", 2): Unfinished("stopped")}
    return make_sweep(results, shape, score, n_seeds=2, unfinished=unfinished).results


def of(results: ResultsFolder, name: str) -> dict[str, CellStatus]:
    return {f"{cell.row}{cell.seed}": cell for cell in sweep_status(results, name).cells}


def test_every_trial_has_its_state_reason_and_other_sweeps(tmp_path: Path) -> None:
    results = plant(tmp_path, "one", "ab")
    status = sweep_status(results, "one")
    assert (status.counts, status.runner, status.is_complete) == (
        {"finished": 2, "failed": 1, "stopped": 1},
        None,
        False,
    )
    assert {name: (str(cell.state), cell.reason) for name, cell in of(results, "one").items()} == {
        "a1": ("finished", None),
        "b1": ("finished", None),
        "a2": ("failed", "no cake"),
        "b2": ("stopped", None),
    }
    plan = json.loads((results.sweep("one") / "plan.json").read_text())
    results.sweep("two").mkdir()
    plan["tables"][0]["cells"] = plan["tables"][0]["cells"][:1]
    (results.sweep("two") / "plan.json").write_text(json.dumps(plan | {"name": "two"}))
    assert {name: cell.shared for name, cell in of(results, "one").items() if cell.shared} == {"a1": ("two",)}


def test_a_running_trial_has_its_process_epoch_and_time_left(tmp_path: Path) -> None:
    results = plant(tmp_path, "one", "ab")
    folder = results.trial(of(results, "one")["b2"].identity)
    facts = {
        "identity": folder.identity,
        "split": "1",
        "seed": 2,
        "store": "/s",
        "data_fingerprint": "f",
        "part": "test",
    }
    trial = {**facts, "format_version": FORMAT_VERSION, "numerics": 1, "config": {"training": {"epochs": 10}}}
    folder.trial_path.write_text(json.dumps(trial))
    with lease.acquire(folder.path) or pytest.fail("free"), Journal(folder.journal_path) as journal:
        journal.status("running", reason=None, host="h", pid=os.getpid())
        before = of(results, "one")["b2"]
        assert (str(before.state), before.epoch, before.left) == ("running", 0, None)
        assert before.holder is not None
        assert str(os.getpid()) in before.holder
        begun = round(1000 * (before.since or 0))
        for epoch in (1, 2):
            record = {"kind": "epoch", "step": epoch, "timestamp": begun + 50_000 * epoch, "metrics": {}}
            journal.append(record)
        running = of(results, "one")["b2"]
    assert running.epoch == 2
    assert running.left is not None
    assert 400 <= running.left <= 500, "8 epochs of 50 s, less what has passed since the last one"


def test_the_command_lists_sweeps_and_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = plant(tmp_path, "one", "ab")
    where = ["--results", str(tmp_path)]
    assert main(arguments=["status", *where]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert all(text in line for text in ("one", "2 finished", "1 failed", "1 stopped", "of 4"))
    assert main(arguments=["status", "one", *where]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert any("no cake" in line and of(results, "one")["a2"].identity in line for line in lines)
    assert main(arguments=["status", "--json", *where]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert (shown["format_version"], [sweep["name"] for sweep in shown["sweeps"]]) == (1, ["one"])
    assert [cell["state"] for cell in shown["sweeps"][0]["cells"]].count("finished") == 2
    with refused("unknown", value="two"):
        sweep_status(results, "two")


def test_a_folder_without_sweeps_has_nothing_unfinished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments=["status", "--results", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sweeps"] == []


def test_a_running_sweep_is_asked_to_stop_and_others_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = plant(tmp_path, "one", "ab")
    where = ["--results", str(tmp_path)]
    assert main(arguments=["stop", "one", *where]) == 2
    with lease.acquire(results.running("one")) or pytest.fail("free"):
        assert main(arguments=["stop", "two", *where]) == 2
        assert "one" in capsys.readouterr().err.splitlines()[-1]
        assert main(arguments=["stop", "one", *where]) == 0
        assert str(os.getpid()) in capsys.readouterr().out
        assert (results.running("one") / STOP_FILE).exists()
        assert sweep_status(results, "one").runner is not None


def test_a_metric_of_every_epoch_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_trial(tmp_path, epochs=3)
    words = ["--results", str(tmp_path), folder.identity]
    assert main(arguments=["history", *words]) == 0
    assert "loss.total" in capsys.readouterr().out.splitlines()
    assert main(arguments=["history", *words, "loss.total"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3"]
    assert main(arguments=["history", *words, "loss.total", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [[int(e), float(v)] for e, v in (line.split("\t") for line in lines)]
    assert main(arguments=["history", *words, "loss.totl"]) == 2
    assert "'loss.total'" in capsys.readouterr().err

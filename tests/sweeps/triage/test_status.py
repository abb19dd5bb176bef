"""What `mucon-sweeps status`, `stop` and `history` read from results folders."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from sweeps.service.cli import main, parser
from sweeps.service.plan.sweep_folder import SweepInfo, hold, write_sweep
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.triage.status import CellStatus, sweep_status
from sweeps.service.triage.why import explain
from sweeps.service.trials import lease
from sweeps.service.trials.folder import FORMAT_VERSION
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import SLOTS_FILE, STOP_FILE, ResultsFolder
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
    assert sweep_status(results, "one").counts == {"known": 1, "finished": 1, "failed": 1, "stopped": 1}
    assert sweep_status(results, "two").state == "finished"


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
        waiting, why = of(results, "one")["b2"], explain(results, folder.identity)
        assert (str(waiting.state), waiting.since, waiting.left) == ("pending", None, None), "it waits for cores"
        assert (str(why.state), why.since) == ("pending", None)
        assert f"process {os.getpid()} on " in str(waiting.holder)
        journal.status("running", reason=None, host=socket.gethostname(), pid=os.getpid())
        before = of(results, "one")["b2"]
        assert (str(before.state), before.epoch, before.left) == ("running", 0, None)
        assert before.holder is not None
        assert str(os.getpid()) in before.holder
        begun = round(1000 * (before.since or 0))
        for epoch in (1, 2):
            record = {"kind": "epoch", "step": epoch, "timestamp": begun + 50_000 * epoch, "metrics": {}}
            journal.append(record)
        running = of(results, "one")["b2"]
        with lease.acquire(results.running("one")) or pytest.fail("free"):
            sweep = sweep_status(results, "one")
    assert sweep.left is not None
    assert 400 <= sweep.left <= 500, "only this trial is missing"
    assert running.epoch == 2
    assert running.left is not None
    assert 400 <= running.left <= 500, "8 epochs of 50 s, less what has passed since the last one"


def test_the_command_lists_sweeps_and_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = plant(tmp_path, "one", "ab")
    where = ["--results", str(tmp_path)]
    assert main(arguments=["status", *where]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert all(text in line for text in ("one", "incomplete", "2 of 4", "1 failed", "1 stopped"))
    assert main(arguments=["status", "one", *where]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert sum("seed " in line for line in lines[:5]) == 4
    assert any("no cake" in line and of(results, "one")["a2"].identity in line for line in lines)
    assert main(arguments=["status", "--json", *where]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert (shown["format_version"], [sweep["name"] for sweep in shown["sweeps"]]) == (4, ["one"])
    assert [cell["state"] for cell in shown["sweeps"][0]["cells"]].count("finished") == 2
    with refused("unknown", value="two"):
        sweep_status(results, "two")


def test_a_cell_without_trial_is_stale_where_an_earlier_plan_of_the_sweep_had_its_row(tmp_path: Path) -> None:
    results = plant(tmp_path, "one", "ab")
    old, gone = of(results, "one")["a1"], of(results, "one")["b1"]
    trial = {"format_version": FORMAT_VERSION, "config": {}, "split": "1", "seed": 1}
    results.trial(old.identity).trial_path.write_text(json.dumps(trial))
    rows = {old.identity: "a", gone.identity: "b"}
    write_sweep(results, SweepInfo(name="one", title="", command="", config={}), "mucon", rows)
    path = results.sweep("one") / "plan.json"
    changed = path.read_text()
    for cell in (old, gone):
        changed = changed.replace(cell.identity, f"ffff{cell.identity[4:]}")
    path.write_text(changed)
    now = of(results, "one")
    assert (now["a1"].state, now["a1"].earlier) == ("stale", (old.identity,))
    assert (now["b1"].state, now["b1"].earlier) == ("missing", ()), "its earlier trial was removed"
    assert sweep_status(results, "one").counts == {"missing": 1, "stale": 1, "failed": 1, "stopped": 1}
    with lease.acquire(results.running("one")) or pytest.fail("free"):
        assert sweep_status(results, "one").counts == {"pending": 1, "stale": 1, "failed": 1, "stopped": 1}
        assert str(explain(results, now["b1"].identity).state) == "pending"


def test_an_odd_trial_does_not_hide_the_others(tmp_path: Path) -> None:
    results = plant(tmp_path, "one", "ab")
    folder = results.trial(of(results, "one")["b2"].identity)
    odd = {"format_version": FORMAT_VERSION, "config": {"training": 3}, "split": [1], "seed": {}}
    for path in (folder.trial_path, results.trial("0" * 16).trial_path):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(odd))
    write_sweep(results, SweepInfo(name="one", title="", command="", config={}), "mucon", {"0" * 16: "a"})
    with lease.acquire(folder.path) or pytest.fail("free"), Journal(folder.journal_path) as journal:
        journal.status("running", reason=None, host=socket.gethostname(), pid=os.getpid())
        journal.epoch(1, {})
        found = of(results, "one")["b2"]
    assert (found.state, found.epoch, found.left, found.earlier) == ("running", 1, None, ())


@pytest.mark.parametrize(
    ("unfinished", "state"),
    [({}, "finished"), ({("a", "1", 2): "failed"}, "failed"), ({("a", "1", 2): "stopped"}, "incomplete")],
)
def test_a_sweep_that_no_process_runs_is_finished_failed_or_incomplete(
    tmp_path: Path, unfinished: dict[tuple[str, str, int], str], state: str
) -> None:
    shape = Experiment(name="one", title="one", label_titles=("Row",), variants=(Variant(labels=("a",), settings={}),))
    make_sweep(
        tmp_path, shape, score, n_seeds=2, unfinished={place: Unfinished(what) for place, what in unfinished.items()}
    )
    assert sweep_status(ResultsFolder(tmp_path), "one").state == state


def test_a_damaged_plan_does_not_hide_the_other_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = plant(tmp_path, "one", "ab")
    results.sweep("half").mkdir()
    (results.sweep("half") / "plan.json").write_text((results.sweep("one") / "plan.json").read_text()[:200])
    assert main(arguments=["status", "--json", "--results", str(tmp_path)]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert [sweep["name"] for sweep in shown["sweeps"]] == ["one"]
    assert [sweep["name"] for sweep in shown["unreadable"]] == ["half"]
    assert main(arguments=["status", "--results", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == len(err.splitlines()) == 1
    with refused("damaged", "half"):
        sweep_status(results, "half")


def test_the_watch_ends_when_no_process_runs_the_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = plant(tmp_path, "one", "ab")
    words = ["status", "--results", str(tmp_path), "--watch", "0.01"]
    with lease.acquire(results.running("one")) or pytest.fail("free") as held:
        ends = threading.Timer(0.5, held.release)
        ends.start()
        assert main(arguments=words) == 3
        ends.join()
    blocks = capsys.readouterr().out.split("\n\n")
    assert len(blocks) > 1
    assert all(block.strip().count("\n") == 0 for block in blocks)
    assert ("running" in blocks[0], "incomplete" in blocks[-1]) == (True, True)
    assert main(arguments=["status", "--results", str(tmp_path), "--watch", "one"]) == 3
    assert "seed 2" in capsys.readouterr().out, "a word that is no number names the sweep"


def test_a_watch_that_cannot_be_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "one", "ab")
    for words, rule in (
        (["one", "--watch", "often"], "type"),
        (["one", "--watch", "0"], "range"),
        (["--watch", "nan"], "range"),
        (["--watch", "1", "--json"], "conflict"),
    ):
        options = parser().parse(["status", "--results", str(tmp_path), *words])
        with refused(rule, "--watch"):
            options.run(options)


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
        (results.running("one") / STOP_FILE).symlink_to(tmp_path / "none" / "file")
        assert main(arguments=["stop", "one", *where]) == 2, "it cannot be written"
        (results.running("one") / STOP_FILE).unlink()
        capsys.readouterr()
        assert main(arguments=["stop", "one", *where]) == 0
        assert str(os.getpid()) in capsys.readouterr().out
        assert (results.running("one") / STOP_FILE).exists()
        assert sweep_status(results, "one").runner is not None
        assert sweep_status(results, "one").at_a_time is None
        (results.running("one") / SLOTS_FILE).write_text("7")
        assert main(arguments=["status", *where]) == 3
        assert ", 7 at a time" in capsys.readouterr().out
    with hold(results, "one"):
        assert not (results.running("one") / STOP_FILE).exists(), "it stopped an earlier process"
        assert sweep_status(results, "one").at_a_time is None


def test_a_metric_of_every_epoch_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_trial(tmp_path, epochs=3)
    words = ["--results", str(tmp_path), folder.identity]
    assert main(arguments=["history", *words]) == 0
    assert "loss.total" in capsys.readouterr().out.splitlines()
    assert main(arguments=["history", *words, "loss.total"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3"]
    assert main(arguments=["history", *words, "loss.total", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["values"] == [[int(e), float(v)] for e, v in (line.split("\t") for line in lines)]
    assert (shown["format_version"], shown["metric"], shown["identity"]) == (1, "loss.total", folder.identity)
    assert main(arguments=["history", *words, "--json"]) == 0
    assert "loss.total" in json.loads(capsys.readouterr().out)["metrics"]
    assert main(arguments=["history", *words, "loss.totl"]) == 2
    assert "'loss.total'" in capsys.readouterr().err

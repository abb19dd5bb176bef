"""What `mucon-sweeps gc` removes and leaves."""

import json
import os
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.rubbish import find, remove
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import write_trial


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    return path


@pytest.fixture
def trial(tmp_path: Path) -> TrialFolder:
    """A finished trial of the sweep `one` with leftovers."""
    folder, results = write_trial(tmp_path), ResultsFolder(tmp_path)
    write_sweep(results, SweepInfo(name="one", title="", command="", config={}), "mucon", {folder.identity: "row"})
    for name in (".result.json.77", "lease-00000003.0123456789abcdef0123456789abcdef", "run/checkpoint.new/weights"):
        touch(folder.path / name)
    for number in (1, 2, 3):
        with lease.acquire(folder.path) or pytest.fail("free"):
            assert number
    touch(folder.path / "result.json.damaged-1")
    touch(results.running("one") / "tune" / "state")
    touch(results.sweep("one") / ".one.parquet")
    os.utime(touch(results.sweep("one") / ".plan.json.9"), (1, 1))
    touch(results.path / "trash" / "trials-x" / "trial.json")
    return folder


def removed(results: Path, *more: str) -> dict[str, list[str]]:
    found = find(ResultsFolder(results), orphans="orphans" in more, damaged_days=0 if "damaged" in more else None)
    kinds: dict[str, list[str]] = {}
    for item in remove(ResultsFolder(results), found, 0 if "damaged" in more else None):
        kinds.setdefault(item.kind, []).append(item.path.name)
        assert not item.path.exists()
    return kinds


def test_what_trials_print_stays_while_a_sweep_runs_or_a_process_holds_the_trial(tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    held, idle, gone = (touch(results.output(digit * 16)) for digit in "abc")
    results.trial(idle.stem).path.mkdir(parents=True)
    with lease.acquire(results.running("one")) or pytest.fail("free"):
        assert removed(tmp_path) == {}
    with lease.acquire(results.trial(held.stem).path) or pytest.fail("free"):
        assert sorted(removed(tmp_path).pop("scratch")) == [idle.name, gone.name]
    assert held.exists()


def test_leftovers_of_the_dead_go_and_everything_else_stays(trial: TrialFolder, tmp_path: Path) -> None:
    kept = {
        path for path in trial.path.rglob("*") if path.name in ("journal.jsonl", "result.json", "weights.safetensors")
    }
    draft = touch(tmp_path / f".mlflow.db.{32 * 'a'}")
    os.utime(draft, (1, 1))
    kinds = removed(tmp_path)
    names = [
        draft.name,
        ".plan.json.9",
        ".result.json.77",
        "checkpoint.new",
        "lease-00000003.0123456789abcdef0123456789abcdef",
    ]
    assert sorted(kinds.pop("temporaries")) == sorted(names)
    assert len(kinds.pop("leases")) >= 2
    assert kinds == {"scratch": ["tune"], "trash": ["trials-x"]}
    assert all(path.exists() for path in kept)
    assert (trial.path / "result.json.damaged-1").exists()
    assert (tmp_path / "sweeps" / "one" / ".one.parquet").exists(), "a report may be writing it"
    newest = max(trial.path.glob("lease-*.json")).name
    assert newest > "lease-00000003.json", "numbers of leases never fall"
    assert removed(tmp_path) == {}


def test_what_a_process_holds_is_not_touched(trial: TrialFolder, tmp_path: Path) -> None:
    found = find(ResultsFolder(tmp_path))
    sweep = ResultsFolder(tmp_path).running("one")
    with lease.acquire(trial.path) or pytest.fail("free"), lease.acquire(sweep) or pytest.fail("free"):
        assert [item.kind for item in find(ResultsFolder(tmp_path))] == ["trash"]
        assert {item.kind for item in remove(ResultsFolder(tmp_path), found)} == {"trash"}
        assert (trial.path / ".result.json.77").exists()


def test_the_only_checkpoint_of_a_killed_writer_stays(trial: TrialFolder, tmp_path: Path) -> None:
    (trial.checkpoint_path / "state.json").write_text("{}")
    previous = trial.run_path / "checkpoint.previous"
    touch(previous / "state.json")
    found = find(ResultsFolder(tmp_path))
    assert previous in [item.path for item in found]
    (trial.checkpoint_path / "state.json").unlink()  # a writer was killed between two renames meanwhile
    remove(ResultsFolder(tmp_path), found)
    assert previous.exists()


def test_orphans_and_old_damaged_files_go_only_if_asked_for(trial: TrialFolder, tmp_path: Path) -> None:
    orphan = write_trial(tmp_path, shape="bell")
    start = {"training": {"warm_start": str(orphan.run_path)}}
    user = write_trial(tmp_path, shape="trapezoid", config=start)
    removed(tmp_path)
    assert orphan.path.exists()
    assert removed(tmp_path, "damaged")["damaged"] == ["result.json.damaged-1"]
    assert removed(tmp_path, "orphans")["orphans"] == [user.identity]
    assert removed(tmp_path, "orphans")["orphans"] == [orphan.identity], "nothing starts from it any more"
    assert trial.path.exists()
    write_trial(tmp_path, shape="bell")
    assert not find(ResultsFolder(tmp_path), orphans=True, registered=lambda: [orphan.identity])
    with lease.acquire(tmp_path / "incoming") or pytest.fail("free"), refused("busy", value="incoming", n=1):
        find(ResultsFolder(tmp_path), orphans=True)
    (tmp_path / "sweeps" / "one" / "sweep.json").write_text("{")
    with refused("damaged", value="one", n=1):
        find(ResultsFolder(tmp_path), orphans=True)
    assert not find(ResultsFolder(tmp_path))


def test_the_command_counts_bytes_by_kind(
    trial: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["gc", "--results", str(tmp_path), "--json"]
    assert main(arguments=[*line, "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["format_version"], shown["removed"]) == (1, False)
    assert shown["kinds"]["trash"] == {"bytes": 5, "paths": ["trash/trials-x"]}
    assert main(arguments=line) == 0
    assert json.loads(capsys.readouterr().out)["removed"]
    assert main(arguments=[*line[:3], "--orphans"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(arguments=[*line, "--damaged", "-1"]) == 2

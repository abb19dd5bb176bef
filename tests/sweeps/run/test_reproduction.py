"""A known trial trained again: the same bits, and everything that can differ."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import mucon
from mucon.errors import InputError
from sweeps.service.cli import main
from sweeps.service.run.reproduction import Known, environment_changes, find_trial, read_known
from sweeps.service.run.worker import run_trial
from sweeps.service.trials.folder import TrialFolder
from tests.sweeps import small


@pytest.fixture(scope="module")
def trained(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> TrialFolder:
    """A finished trial of a store that can be moved."""
    place = tmp_path_factory.mktemp("reproduced")
    shutil.copytree(tiny_store, place / "store")
    trial = small.make_trial(place / "store", training__epochs=2)
    run_trial(trial, place / "results", device="cpu")
    return TrialFolder(place / "results" / "trials" / trial.identity)


def reproduced(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """Exit status and lines of the command."""
    status = main(None, ["reproduce", *words])
    return status, capsys.readouterr().out.splitlines()


def test_a_trial_is_trained_again_to_the_same_bits_and_leaves_nothing(
    trained: TrialFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    results = trained.path.parents[1]
    before = sorted(path.relative_to(results) for path in results.rglob("*"))
    status, lines = reproduced(capsys, trained.identity, "--results", str(results))
    assert status == 0
    assert lines[0] == f"training {trained.identity} again: split 1, seed 1, 2 epochs, on cpu"
    assert [line.split(" loss")[0] for line in lines[1:3]] == ["epoch 1/2", "epoch 2/2"]
    assert lines[3:] == [f"the same bits: weights {small.weights(results)[trained.identity]}, and every score"]
    assert sorted(path.relative_to(results) for path in results.rglob("*")) == before


def test_what_differs_is_told_with_where_it_was_trained(
    trained: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / trained.identity
    shutil.copytree(trained.path, folder)
    result = json.loads((folder / "result.json").read_text())
    truth = result["weights_sha256"], result["scores"]["full"]["mof"]
    result["weights_sha256"] = "0" * 64
    result["scores"]["full"]["mof"] = 2.0
    (folder / "result.json").write_text(json.dumps(result))
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    torch = records[0]["packages"]["torch"]
    records[0]["packages"]["torch"] = "1.0"
    records[0]["threads"] = 7
    (folder / "journal.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))

    status, lines = reproduced(capsys, str(folder))
    assert status == 3
    assert lines[3:] == [
        f"the weights differ: sha256 {'0' * 64} before, {truth[0]} now",
        f"full.mof differs: 2.0 before, {truth[1]} now",
        "what else differs (the recordings are the same):",
        "  threads: 7 before, 1 now",
        f"  torch: 1.0 before, {torch} now",
    ]


def test_a_store_that_moved_is_named_and_changed_recordings_are_told_before_training(
    trained: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results" / "trials" / trained.identity
    shutil.copytree(trained.path, folder)
    value = json.loads((folder / "trial.json").read_text())
    (folder / "trial.json").write_text(json.dumps({**value, "store": str(tmp_path / "gone")}))
    assert main(None, ["reproduce", str(folder / "run")]) == 2
    assert str(tmp_path / "gone") in capsys.readouterr().err
    status, lines = reproduced(capsys, str(folder), "--store", value["store"])
    assert (status, lines[-1][:14]) == (0, "the same bits:")

    other = small.make_store(tmp_path / "other", seed=5)
    status, lines = reproduced(capsys, str(folder), "--store", str(other))
    assert status == 3
    assert lines[0].startswith(f"the recordings changed: split 1 of {other} has the fingerprint ")
    assert f"the trial was trained on {value['data_fingerprint']}" in lines[0]
    assert lines[1].startswith("training ")
    assert any(line.startswith("the weights differ: ") for line in lines)
    assert "what else differs:" in lines


def test_scores_of_another_evaluation_are_not_compared(
    trained: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / trained.identity
    shutil.copytree(trained.path, folder)
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "evaluation": "another", "scores": {"full": {}}}))
    status, lines = reproduced(capsys, str(folder))
    assert (status, lines[-1]) == (0, f"the same bits: weights {result['weights_sha256']}")


def test_a_trial_that_cannot_be_trained_any_more_says_why(
    trained: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / trained.identity
    shutil.copytree(trained.path, folder)
    value = json.loads((folder / "trial.json").read_text())
    value["config"]["training"]["learning_rate"] = 1e30
    (folder / "trial.json").write_text(json.dumps(value))
    status, lines = reproduced(capsys, str(folder))
    assert status == 3
    assert lines[-1].startswith("not reproduced: diverged, training diverged in epoch 1")


def test_unknown_and_unfinished_runs_are_refused_by_name(trained: TrialFolder, tmp_path: Path) -> None:
    results = trained.path.parents[1]
    with pytest.raises(InputError) as refused:
        find_trial(trained.identity[:-1] + "x", results)
    assert f"(did you mean '{trained.identity}'?)" in refused.value.problems[0]
    assert "(1 trials there)" in refused.value.problems[0]
    folder = tmp_path / trained.identity
    shutil.copytree(trained.path, folder)
    (folder / "result.json").unlink()
    assert find_trial(str(folder), results).path == folder
    with pytest.raises(InputError, match="a trial that has finished can be compared") as refused:
        read_known(TrialFolder(folder))
    assert str(folder) in refused.value.problems[0]


def test_another_arithmetic_and_a_silent_journal_are_told(trained: TrialFolder) -> None:
    known = read_known(trained)

    def changes(**values: Any) -> list[str]:
        facts = {"trial": known.trial, "result": known.result, "environment": known.environment}
        return list(environment_changes(Known(**{**facts, "numerics": mucon.NUMERICS, **values}), known))

    assert changes() == []
    assert changes(environment={}) == ["the journal does not say where it was trained"]
    old = {**known.environment, "numerics": 0}
    assert changes(numerics=0, environment=old) == [
        f"numerics: 0 before, {mucon.NUMERICS} now (the arithmetic was changed on purpose)"
    ]

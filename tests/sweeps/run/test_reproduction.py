"""A finished trial trained again: the same bits, and everything that can differ."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import mucon
from sweeps.service.cli import main
from sweeps.service.run.reproduction import Reproduction, finished_trial, reproduce
from sweeps.service.run.worker import Outcome, run_trial
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.refusals import refused
from tests.sweeps import small


@pytest.fixture(scope="module")
def trained(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> TrialFolder:
    """A finished trial of a store that can be moved."""
    place = tmp_path_factory.mktemp("reproduced")
    shutil.copytree(tiny_store, place / "store")
    trial = small.make_trial(place / "store", training__epochs=2)
    results = ResultsFolder(place / "results")
    run_trial(trial, results, device="cpu")
    return results.trial(trial.identity)


@pytest.fixture
def copied(trained: TrialFolder, tmp_path: Path) -> TrialFolder:
    """A copy of the finished trial that can be changed."""
    shutil.copytree(trained.path, tmp_path / trained.identity)
    return TrialFolder(tmp_path / trained.identity)


def evaluation_of(folder: TrialFolder) -> str:
    return str(json.loads(folder.trial_path.read_text())["evaluation"])


def change(path: Path, **values: Any) -> dict[str, Any]:
    """Changes a JSON file; returns what it contained before."""
    before = json.loads(path.read_text())
    path.write_text(json.dumps({**before, **values}))
    return dict(before)


def run_again(folder: TrialFolder, store: Path | None = None) -> tuple[Reproduction, list[str]]:
    """The reproduction of a trial, and the progress lines."""
    lines: list[str] = []
    place = ResultsFolder(folder.path.parent)
    return reproduce(str(folder.path), place, store=store, device="auto", say=lines.append), lines


def test_a_trial_is_trained_again_to_the_same_bits_and_leaves_no_files(
    trained: TrialFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    results = trained.path.parents[1]
    before = sorted(path.relative_to(results) for path in results.rglob("*"))
    status = main(None, ["reproduce", trained.identity, "--results", str(results)])
    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert trained.identity in lines[0]
    assert [line.split(" loss")[0] for line in lines[1:3]] == ["epoch 1/2", "epoch 2/2"]
    assert len(lines) == 4
    assert small.weights(results)[trained.identity] in lines[3]
    assert sorted(path.relative_to(results) for path in results.rglob("*")) == before


def test_a_trial_of_a_gpu_is_refused_on_a_machine_without_one(
    copied: TrialFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    journal = copied.journal_path
    journal.write_text(journal.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    with refused("unsupported", "--device", "cuda", n=1):
        run_again(copied)


def test_different_weights_scores_and_environments_are_reported(
    copied: TrialFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied.result_path(evaluation_of(copied))
    scores = json.loads(path.read_text())["scores"]
    mof = scores["full"]["mof"]
    scores["full"]["mof"] = 2.0
    result = change(path, weights_sha256="0" * 64, scores=scores)
    records = [json.loads(line) for line in copied.journal_path.read_text().splitlines()]
    torch = records[0]["packages"]["torch"]
    records[0]["packages"]["torch"] = "1.0"
    records[0]["threads"] = 7
    copied.journal_path.write_text("".join(f"{json.dumps(record)}\n" for record in records))

    reproduction, _ = run_again(copied)
    assert not reproduction.is_same
    assert reproduction.weights == ("0" * 64, result["weights_sha256"])
    assert reproduction.scores == {"full.mof": (2.0, mof)}
    assert reproduction.n_scores > 20
    assert reproduction.environment == {"threads": (7, 1), "torch": ("1.0", torch)}
    assert reproduction.data_changed is None

    assert main(None, ["reproduce", str(copied.path)]) == 3
    weights, score, _, *environment = capsys.readouterr().out.splitlines()[3:]
    assert {"0" * 64, result["weights_sha256"]} <= set(re.split(r"[ ,]+", weights))
    assert {"full.mof", "2.0", str(mof)} <= set(score.split())
    assert [line.split()[0] for line in environment] == ["threads:", "torch:"]
    assert {"1.0", torch} <= set(environment[1].split())


def test_a_store_at_another_path_is_passed_and_changed_recordings_are_reported_before_training(
    copied: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = change(copied.trial_path, store=str(tmp_path / "gone"))
    assert main(None, ["reproduce", str(copied.run_path)]) == 2
    assert str(tmp_path / "gone") in capsys.readouterr().err
    reproduction, _ = run_again(copied, Path(trial["store"]))
    assert reproduction.is_same
    assert reproduction.trial.store == trial["store"]

    other = small.make_store(tmp_path / "other", seed=5)
    reproduction, lines = run_again(copied, other)
    assert not reproduction.is_same
    assert reproduction.data_changed not in (None, trial["data_fingerprint"])
    assert reproduction.weights[1] not in (None, reproduction.weights[0])
    assert all(text in lines[0] for text in (str(other), reproduction.data_changed or "?", trial["data_fingerprint"]))
    assert trial["identity"] in lines[1]


def test_scores_of_another_evaluation_are_not_compared(copied: TrialFolder) -> None:
    evaluation = evaluation_of(copied)
    copied.evaluation_path(evaluation).rename(copied.evaluation_path("another"))
    result = change(copied.result_path("another"), evaluation="another", scores={"full": {}})
    reproduction, _ = run_again(copied)
    assert reproduction.is_same
    assert reproduction.weights == (result["weights_sha256"],) * 2
    assert (reproduction.n_scores, reproduction.scores) == (0, {})
    (line,) = reproduction.lines()
    assert line.endswith(result["weights_sha256"])


def test_a_trial_that_cannot_be_trained_again_is_not_reproduced(
    copied: TrialFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads(copied.trial_path.read_text())["config"]
    config["training"]["learning_rate"] = 1e30
    change(copied.trial_path, config=config)
    reproduction, _ = run_again(copied)
    assert reproduction.outcome.state is State.DIVERGED
    assert "epoch 1" in str(reproduction.outcome.reason)
    assert reproduction.weights[1] is None
    assert not reproduction.is_same
    assert main(None, ["reproduce", str(copied.path)]) == 3
    assert str(reproduction.outcome.reason) in capsys.readouterr().out.splitlines()[-1]


def test_unknown_and_unfinished_trials_are_refused(trained: TrialFolder, copied: TrialFolder) -> None:
    results = ResultsFolder(trained.path.parents[1])
    wrong = trained.identity[:-1] + "x"
    with refused("unknown", place=str(results.path), value=wrong, n=1) as refusal:
        results.find_trial(wrong)
    assert trained.identity in str(refusal.problems[0]), "the nearest trial is suggested"
    copied.result_path(evaluation_of(copied)).unlink()
    assert results.find_trial(str(copied.path)).path == copied.path
    with refused("state", place=str(copied.path), value="missing", n=1):
        finished_trial(copied)


def test_another_arithmetic_and_an_empty_journal_are_reported(copied: TrialFolder) -> None:
    change(copied.trial_path, numerics=0)
    records = [json.loads(line) for line in copied.journal_path.read_text().splitlines()]
    records[0]["numerics"] = 0
    copied.journal_path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    reproduction, _ = run_again(copied)
    ((name, (before, now)),) = reproduction.environment.items()
    assert (name, before) == ("numerics", 0)
    assert str(now).startswith(str(mucon.NUMERICS))

    change(copied.trial_path, numerics=mucon.NUMERICS)
    copied.journal_path.write_text("")
    reproduction, _ = run_again(copied)
    assert list(reproduction.environment) == ["environment"]
    assert reproduction.is_same


@pytest.mark.parametrize("data_changed", [None, "f" * 16])
def test_differences_without_a_recorded_cause_have_a_line(trained: TrialFolder, data_changed: str | None) -> None:
    trial = Trial.from_dict(json.loads(trained.trial_path.read_text()))
    facts: dict[str, Any] = {"trial": trial, "data_changed": data_changed, "outcome": Outcome(State.FINISHED)}
    nothing = Reproduction(**facts, weights=("a", "b"), scores={}, n_scores=3, environment={})
    one = Reproduction(**facts, weights=("a", "b"), scores={}, n_scores=3, environment={"torch": ("1.0", "2.0")})
    assert len(list(nothing.lines())) == len(list(one.lines())) == 3
    assert "torch" in list(one.lines())[-1]

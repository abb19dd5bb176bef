"""The trial that `debug` repeats, and that nothing of the original changes."""

import json
import os
from pathlib import Path

import pytest

from storage.failpoints import VARIABLE
from sweeps.service.cli import main, parser
from sweeps.service.run.debugging import trial_of
from sweeps.service.run.worker import run_trial
from sweeps.service.triage.naming import find
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.refusals import refused
from tests.sweeps import small
from tests.sweeps.triage.test_why import plan


def test_a_missing_evaluation_of_a_trained_trial_is_repeated(tiny_store: Path, tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    first = plan(tmp_path, tiny_store, decoding__beam=3)["a", 1]
    results.trial(first.identity).path.mkdir(parents=True)
    results.trial(first.identity).write_trial(first.to_dict())
    second = plan(tmp_path, tiny_store, decoding__beam=5)["a", 1]
    assert (second.identity, second.evaluation != first.evaluation) == (first.identity, True)
    assert trial_of(find(results, first.identity)).evaluation == first.evaluation, "it has no result yet"
    result = {"train_seconds": 1.0, "weights_sha256": "0", "scores": {}, "per_video": []}
    results.trial(first.identity).write_result(first.evaluation, result)
    found = trial_of(find(results, "a/1/1"))
    assert found.to_dict() == second.to_dict()


def test_a_failed_trial_resumes_from_its_checkpoint_in_a_copy(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    monkeypatch.setenv(VARIABLE, "sweeps.worker.trained:1:raise")
    assert run_trial(trial, results, device="cpu").state is State.FAILED
    monkeypatch.delenv(VARIABLE)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words, epochs in ((["--from-start"], 3), ([], 0)):
        assert main(None, ["debug", trial.identity, "--results", str(tmp_path), "--json", *words]) == 0
        out, err = capsys.readouterr()
        assert (json.loads(out)["state"], err.count("epoch")) == ("finished", epochs)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    options = parser().parse(["debug", trial.identity, "--results", str(tmp_path)])
    path = results.trial(trial.identity).path
    with lease.acquire(path) or pytest.fail("free"), refused("busy", str(path)):
        options.run(options)


def test_the_debugger_opens_where_the_error_is_raised(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, results = small.make_trial(tiny_store, seed=2), ResultsFolder(tmp_path)
    monkeypatch.setenv(VARIABLE, f"sweeps.worker.begun.{trial.identity}:2:raise")
    run_trial(trial, results, device="cpu", should_stop=iter([False] * 5 + [True] * 99).__next__)
    read, write = os.pipe()
    os.write(write, b"p action\nquit\n")
    os.close(write)
    with os.fdopen(read) as keys:
        monkeypatch.setattr("sys.stdin", keys)
        assert main(None, ["debug", trial.identity, "--results", str(tmp_path), "--post-mortem"]) == 3
    out, err = capsys.readouterr()
    assert "'raise'" in out
    assert "FailpointError" in err

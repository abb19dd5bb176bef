"""A trial by itself: every way in which it can end, and what its folder says then."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mucon.errors import InputError
from storage import open_store
from sweeps.service.run.worker import mark_failed, run_trial
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TO_RUN, State, TrialFolder
from tests.sweeps import small

SLEEPER = """
    import os, pathlib, signal, sys
    from sweeps.service.worker import run_trial
    from tests.sweeps import small

    asked = []

    def sleeps_in_the_second_epoch():
        asked.append(None)
        if len(asked) == 8:
            os.kill(os.getpid(), signal.SIGSTOP)
        return False

    trial = small.make_trial(pathlib.Path(sys.argv[1]))
    results = pathlib.Path(sys.argv[2])
    print(run_trial(trial, results, device="cpu", should_stop=sleeps_in_the_second_epoch, lease_duration=4).state)
"""


def folder_of(results: Path, identity: str) -> TrialFolder:
    return TrialFolder(results / "trials" / identity)


def test_a_finished_trials_folder_has_everything(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    seen: list[int] = []
    outcome = run_trial(trial, tmp_path, device="cpu", report=lambda epoch: seen.append(epoch.epoch))
    assert outcome.state is State.FINISHED
    assert seen == [1, 2, 3]
    folder = folder_of(tmp_path, trial.identity)
    assert folder.state(trial.evaluation) == (State.FINISHED, None)
    written = folder.read_trial()
    assert (written["config"], written["split"], written["seed"]) == (trial.config.to_dict(), "1", 1)
    result = folder.result(trial.evaluation)
    assert result is not None
    assert set(result["scores"]) == {"frames", "segments", "full"}
    for prediction in result["scores"]:
        videos = json.loads((folder.path / "predictions" / f"{prediction}.json").read_text())["videos"]
        store = open_store(tiny_store)
        assert set(videos) == {video["id"] for video in result["per_video"]} == set(store.split("1", "test"))
        for video, found in videos.items():
            assert sum(found["lengths"]) == store.record(video).frames
            assert set(found["transcript"]) <= set(store.manifest.vocabulary)
    environment = small.journals(tmp_path)[trial.identity][0]
    assert (environment["kind"], environment["device"], environment["threads"]) == ("environment", "cpu", 1)
    assert environment["packages"]["torch"]
    assert run_trial(trial, tmp_path, device="cpu") == outcome
    assert small.statuses(tmp_path)[trial.identity] == ["running", "finished"]


def test_a_trial_that_is_stopped_and_continued_has_the_same_bits(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    run_trial(trial, tmp_path / "whole", device="cpu")
    for steps in (4, 9):  # in the middle of the first and of the second epoch
        asked: list[None] = []

        def should_stop(asked: list[None] = asked, steps: int = steps) -> bool:
            asked.append(None)
            return len(asked) > steps

        outcome = run_trial(trial, tmp_path / "parts", device="cpu", should_stop=should_stop)
        assert outcome.state is State.STOPPED
        state = folder_of(tmp_path / "parts", trial.identity).state(trial.evaluation)
        assert state == (State.STOPPED, "interrupted; goes on from its checkpoint")
    assert run_trial(trial, tmp_path / "parts", device="cpu").state is State.FINISHED
    assert small.weights(tmp_path / "parts") == small.weights(tmp_path / "whole")
    assert small.epochs(tmp_path / "parts") == small.epochs(tmp_path / "whole")


def test_a_trial_that_diverges_says_so_and_is_not_run_again(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store, training__learning_rate=1e30)
    outcome = run_trial(trial, tmp_path, device="cpu")
    assert outcome.state is State.DIVERGED
    assert "diverged in epoch 1" in str(outcome.reason)
    assert folder_of(tmp_path, trial.identity).state(trial.evaluation) == (State.DIVERGED, outcome.reason)
    assert State.DIVERGED not in TO_RUN


def test_another_way_of_decoding_is_evaluated_without_training_again(tiny_store: Path, tmp_path: Path) -> None:
    first = small.make_trial(tiny_store)
    second = small.make_trial(tiny_store, decoding__length_prior="none")
    assert first.identity == second.identity
    run_trial(first, tmp_path, device="cpu")
    folder = folder_of(tmp_path, first.identity)
    before = (folder.path / "result.json").read_bytes()
    assert folder.state(second.evaluation)[0] in TO_RUN
    told: list[object] = []
    assert run_trial(second, tmp_path, device="cpu", report=told.append).state is State.FINISHED
    assert told == []
    assert (folder.path / "result.json").read_bytes() == before
    results = [folder.result(trial.evaluation) for trial in (first, second)]
    assert [result["evaluation"] for result in results if result] == [first.evaluation, second.evaluation]
    assert (folder.path / "evaluations" / second.evaluation / "predictions" / "full.json").exists()


def test_a_trial_whose_store_is_gone_fails_with_the_stores_own_words(tiny_store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(tiny_store, copy)
    trial = small.make_trial(copy)
    shutil.rmtree(copy)
    outcome = run_trial(trial, tmp_path, device="cpu")
    assert outcome.state is State.FAILED
    assert str(copy) in str(outcome.reason)
    assert "Traceback" not in str(outcome.reason)


def test_a_worker_that_has_lost_its_lease_stops_and_writes_nothing_more(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    line = [sys.executable, "-c", textwrap.dedent(SLEEPER), str(tiny_store), str(tmp_path)]
    worker = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=small.ROOT)
    folder = folder_of(tmp_path, trial.identity)
    try:
        small.wait_until(lambda: small.epochs(tmp_path).get(trial.identity) == [1])
        small.wait_until(lambda: lease.holder(folder.path) is None)
        assert folder.state(trial.evaluation)[0] is State.LOST
        with lease.acquire(folder.path) or pytest.fail("an expired lease is free"):
            before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}
            os.kill(worker.pid, signal.SIGCONT)
            assert worker.communicate(timeout=60)[0].strip() == "lost"
            after = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}
    finally:
        worker.kill()
        worker.wait()
    assert after == before


def test_a_worker_that_died_without_a_word_is_marked_by_others(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    outcome = mark_failed(trial, tmp_path, "its worker process died 3 times")
    assert (outcome.state, outcome.reason) == (State.FAILED, "its worker process died 3 times")
    run_trial(trial, tmp_path, device="cpu")
    assert mark_failed(trial, tmp_path, "too late").state is State.FINISHED
    assert small.statuses(tmp_path)[trial.identity] == ["failed", "running", "finished"]


def test_a_folder_of_another_format_version_is_refused_by_name(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    folder = folder_of(tmp_path, trial.identity)
    folder.path.mkdir(parents=True)
    with pytest.raises(InputError, match="has none: name another folder"):
        folder.read_trial()
    (folder.path / "trial.json").write_text('{"format_version": 99}')
    with pytest.raises(InputError) as refused:
        folder.read_trial()
    assert str(folder.path / "trial.json") in refused.value.problems[0]
    assert "99" in refused.value.problems[0]
    (folder.path / "result.json").write_text('{"format_ver')
    with pytest.raises(InputError, match="is damaged"):
        folder.state(trial.evaluation)

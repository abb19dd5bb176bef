"""A trial by itself: every way in which it can end, and the content of its directory then."""

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mucon.training import EpochReport
from storage import open_store
from sweeps.service.run.executor import verdicts
from sweeps.service.run.executor.verdicts import mark_failed, recorded
from sweeps.service.run.worker import Outcome, run_trial
from sweeps.service.triage.causes import Cause
from sweeps.service.trials import lease
from sweeps.service.trials.continuing import linked
from sweeps.service.trials.folder import TO_RUN, State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.factories import write_store
from tests.helpers.refusals import refused
from tests.helpers.remote_stores import site_of
from tests.sweeps import small

SLEEPER = """
    import os, pathlib, signal, sys
    from sweeps.service.run.worker import run_trial
    from sweeps.service.trials.results_folder import ResultsFolder
    from tests.sweeps import small

    calls = []

    def sleeps_in_the_second_epoch():
        calls.append(None)
        if len(calls) == 8:
            os.kill(os.getpid(), signal.SIGSTOP)
        return False

    trial = small.make_trial(pathlib.Path(sys.argv[1]))
    results = ResultsFolder(pathlib.Path(sys.argv[2]))
    print(run_trial(trial, results, device="cpu", should_stop=sleeps_in_the_second_epoch, lease_duration=4).state)
"""


def test_a_finished_trials_directory_has_everything(tiny_store: Path, tmp_path: Path) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    epochs: list[int] = []
    outcome = run_trial(trial, results, device="cpu", report=lambda epoch: epochs.append(epoch.epoch))
    assert outcome.state is State.FINISHED
    assert epochs == [1, 2, 3]
    reading = results.reading(trial.identity)
    folder = reading.folder
    assert reading.state(trial.evaluation) == (State.FINISHED, None)
    written = reading.trial
    assert (written["config"], written["split"], written["seed"]) == (trial.config.to_dict(), "1", 1)
    assert (written["format_version"], written["data"]) == (2, {"dim": 6, "dtype": "float32"})
    result = reading.result(trial.evaluation)
    assert result is not None
    assert result["first"]
    assert set(result["scores"]) == {"frames", "segments", "full"}
    assert reading.training is not None
    assert reading.training["weights_sha256"] == result["weights_sha256"]
    assert {path.name for path in folder.path.iterdir() if not path.name.startswith(("lease-", "source."))} == {
        *("trial.json", "journal.jsonl", "run", "training.json", "evaluations")
    }
    for prediction in result["scores"]:
        path = folder.predictions_path(trial.evaluation) / f"{prediction}.json"
        videos = json.loads(path.read_text())["videos"]
        store = open_store(tiny_store)
        assert set(videos) == {video["id"] for video in result["per_video"]} == set(store.split("1", "test"))
        for video, segmentation in videos.items():
            assert sum(segmentation["lengths"]) == store.record(video).frames
            assert set(segmentation["transcript"]) <= set(store.manifest.vocabulary)
    environment = small.journals(tmp_path)[trial.identity][0]
    assert (environment["kind"], environment["device"], environment["threads"]) == ("environment", "cpu", 1)
    assert environment["packages"]["torch"]
    assert run_trial(trial, results, device="cpu") == outcome
    assert small.statuses(tmp_path)[trial.identity] == ["running", "finished"]


def test_the_journal_has_the_shares_of_the_background(tmp_path: Path) -> None:
    trial = small.make_trial(write_store(tmp_path / "store"), training__epochs=1)
    run_trial(trial, ResultsFolder(tmp_path / "results"), device="cpu")
    shares = [one for one in small.journals(tmp_path / "results")[trial.identity] if one["kind"] == "background"]
    assert [0 <= one["aligned"] <= 1 and 0 <= one["posterior"] <= 1 for one in shares] == [True]


def test_a_trial_that_is_stopped_and_resumed_has_the_same_bits(tiny_store: Path, tmp_path: Path) -> None:
    trial, parts = small.make_trial(tiny_store), ResultsFolder(tmp_path / "parts")
    run_trial(trial, ResultsFolder(tmp_path / "whole"), device="cpu")
    for steps in (4, 9):  # in the middle of the first and of the second epoch
        calls: list[None] = []

        def should_stop(calls: list[None] = calls, steps: int = steps) -> bool:
            calls.append(None)
            return len(calls) > steps

        outcome = run_trial(trial, parts, device="cpu", should_stop=should_stop)
        assert outcome.state is State.STOPPED
        assert outcome.reason
        assert parts.reading(trial.identity).state(trial.evaluation) == (State.STOPPED, outcome.reason)
    assert run_trial(trial, parts, device="cpu").state is State.FINISHED
    assert small.weights(tmp_path / "parts") == small.weights(tmp_path / "whole")
    assert small.epochs(tmp_path / "parts") == small.epochs(tmp_path / "whole")


def test_a_stop_before_a_trial_begins_leaves_it_missing(tiny_store: Path, tmp_path: Path) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    outcome = run_trial(trial, results, device="cpu", should_stop=lambda: True)
    assert (outcome.state, outcome.reason) == (State.MISSING, None)
    assert not results.reading(trial.identity).exists


def test_a_trial_that_diverges_is_not_run_again(tiny_store: Path, tmp_path: Path) -> None:
    trial, results = small.make_trial(tiny_store, training__learning_rate=1e30), ResultsFolder(tmp_path)
    outcome = run_trial(trial, results, device="cpu")
    assert outcome.state is State.DIVERGED
    assert "epoch 1" in str(outcome.reason)
    assert results.reading(trial.identity).state(trial.evaluation) == (State.DIVERGED, outcome.reason)
    assert State.DIVERGED not in TO_RUN


def test_other_decoding_settings_are_evaluated_without_training_again(tiny_store: Path, tmp_path: Path) -> None:
    first = small.make_trial(tiny_store)
    second = small.make_trial(tiny_store, decoding__length_prior="none")
    results = ResultsFolder(tmp_path)
    assert first.identity == second.identity
    run_trial(first, results, device="cpu")
    folder = results.trial(first.identity)
    before = folder.result_path(first.evaluation).read_bytes(), folder.training_path.read_bytes()
    assert results.reading(first.identity).state(second.evaluation)[0] in TO_RUN
    epochs: list[object] = []
    assert run_trial(second, results, device="cpu", report=epochs.append).state is State.FINISHED
    assert epochs == []
    assert (folder.result_path(first.evaluation).read_bytes(), folder.training_path.read_bytes()) == before
    reading = results.reading(first.identity)
    assert list(reading.results) == [first.evaluation, second.evaluation]
    assert [result["first"] for result in reading.results.values()] == [True, False]
    assert reading.first_result == reading.result(first.evaluation)
    assert (folder.predictions_path(second.evaluation) / "full.json").exists()


def test_a_trial_whose_store_is_gone_fails_with_the_path_of_the_store(tiny_store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(tiny_store, copy)
    trial = small.make_trial(copy)
    shutil.rmtree(copy)
    results = ResultsFolder(tmp_path)
    outcome = run_trial(trial, results, device="cpu")
    assert outcome.state is State.FAILED
    assert results.reading(trial.identity).state() == (State.FAILED, outcome.reason)
    assert results.reading(trial.identity).environment["device"] == "cpu"
    assert str(copy) in str(outcome.reason)
    assert "Traceback" not in str(outcome.reason)


def test_a_worker_that_has_lost_its_lease_stops_writing(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    line = [sys.executable, "-c", textwrap.dedent(SLEEPER), str(tiny_store), str(tmp_path)]
    worker = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=small.ROOT)
    reading = ResultsFolder(tmp_path).reading
    folder = ResultsFolder(tmp_path).trial(trial.identity)
    try:
        small.wait_until(lambda: small.epochs(tmp_path).get(trial.identity) == [1])
        small.wait_until(lambda: lease.holder(folder.path) is None)
        assert reading(trial.identity).state(trial.evaluation)[0] is State.LOST
        with lease.acquire(folder.path) or pytest.fail("an expired lease is free"):
            before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}
            os.kill(worker.pid, signal.SIGCONT)
            assert worker.communicate(timeout=60)[0].strip() == "lost"
            after = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}
    finally:
        worker.kill()
        worker.wait()
    assert after == before


def test_a_trial_that_runs_out_of_memory_has_that_cause_and_one_that_diverges_has_none(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = ResultsFolder(tmp_path)
    huge = run_trial(small.make_trial(tiny_store, backbone__channels=2 * 10**6), results, device="cpu")
    assert (huge.state, huge.cause) == (State.FAILED, Cause.MEMORY)
    assert run_trial(small.make_trial(tiny_store, training__learning_rate=1e30), results, device="cpu").cause is None


def test_the_failure_of_a_worker_that_died_is_recorded_by_another_process(tiny_store: Path, tmp_path: Path) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    outcome = mark_failed(trial, results, "died three times")
    assert (outcome.state, outcome.reason) == (State.FAILED, "died three times")
    run_trial(trial, results, device="cpu")
    assert mark_failed(trial, results, "too late").state is State.FINISHED
    assert small.statuses(tmp_path)[trial.identity] == ["failed", "running", "finished"]


def test_a_failure_that_cannot_be_recorded_is_one_unless_the_whole_folder_cannot_be_written(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)

    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(lease, "acquire", denied)
    assert mark_failed(trial, results, "its worker died").state is State.FAILED
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        mark_failed(trial, results, "its worker died")


def test_a_trial_that_another_process_holds_is_not_marked_as_failed(tiny_store: Path, tmp_path: Path) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    with lease.acquire(results.trial(trial.identity).path) or pytest.fail("free"):
        assert mark_failed(trial, results, "died").state is State.RUNNING
    assert small.statuses(tmp_path) == {}


def test_a_directory_without_a_trial_and_one_of_another_format_version_are_refused(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    folder = results.trial(trial.identity)
    folder.path.mkdir(parents=True)
    with refused("missing", place=str(folder.path), value="trial.json", n=1):
        _ = results.reading(trial.identity).trial
    folder.trial_path.write_text('{"format_version": 99}')
    with refused("version", place=str(folder.trial_path), value=99, n=1):
        _ = results.reading(trial.identity).trial
    folder.result_path(trial.evaluation).parent.mkdir(parents=True)
    folder.result_path(trial.evaluation).write_text('{"format_ver')
    with refused("damaged", place=str(folder.result_path(trial.evaluation)), n=1):
        results.reading(trial.identity).result(trial.evaluation)


def test_a_store_that_was_replaced_since_the_trial_was_planned_fails_it_before_training(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial = small.make_trial(tiny_store)
    planned = dataclasses.replace(trial, data_fingerprint="0" * 16)
    outcome = run_trial(planned, ResultsFolder(tmp_path), device="cpu")
    assert outcome.state is State.FAILED
    assert outcome.reason is not None
    assert trial.data_fingerprint in outcome.reason
    assert "0" * 16 in outcome.reason
    assert not ResultsFolder(tmp_path).trial(trial.identity).checkpoint_path.exists()


def test_a_store_that_is_replaced_during_training_fails_the_evaluation(tiny_store: Path, tmp_path: Path) -> None:
    store, results = shutil.copytree(tiny_store, tmp_path / "store"), ResultsFolder(tmp_path / "results")
    trial, other = small.make_trial(store), small.make_store(tmp_path / "other", seed=1)

    def replace_store(epoch: EpochReport) -> None:
        if epoch.epoch == 1:
            store.rename(tmp_path / "old")
            other.rename(store)

    outcome = run_trial(trial, results, device="cpu", report=replace_store)
    reading = results.reading(trial.identity)
    assert outcome.state is State.FAILED
    assert trial.data_fingerprint in str(outcome.reason)
    assert reading.is_trained  # on the mapped files of the first store
    assert not reading.n_results
    assert run_trial(trial, results, device="cpu").state is State.FAILED
    store.rename(other)
    (tmp_path / "old").rename(store)
    epochs: list[EpochReport] = []
    assert run_trial(trial, results, device="cpu", report=epochs.append).state is State.FINISHED
    assert not epochs


def test_a_trial_whose_store_is_out_of_reach_goes_on_with_the_copy_that_it_was_planned_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "cache"))
    local, results = small.make_store(tmp_path / "site" / "tiny"), ResultsFolder(tmp_path / "results")
    with site_of(tmp_path / "site") as site:
        here = small.make_trial(local)
        trial = dataclasses.replace(here, store=site.uri("tiny"))
        assert run_trial(trial, results, device="cpu", report=lambda _: site.server_close()).state is State.FINISHED
    run_trial(here, ResultsFolder(tmp_path / "local"), device="cpu")
    assert small.weights(results.path) == small.weights(tmp_path / "local")
    other = dataclasses.replace(trial, identity="0" * 16, data_fingerprint="0" * 16)
    assert trial.data_fingerprint in str(run_trial(other, results, device="cpu").reason)
    with refused("unreachable", place=trial.store, n=1):
        open_store(trial.store)


def test_a_trial_that_resumes_on_another_split_or_other_annotation_fails(tiny_store: Path, tmp_path: Path) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path / "results")
    run_trial(trial, results, device="cpu", should_stop=iter([False] * 9 + [True] * 9).__next__)
    other = small.make_store(tmp_path / "other", seed=1)
    moved = dataclasses.replace(small.make_trial(other), identity=trial.identity)
    outcome = run_trial(moved, results, device="cpu")
    assert outcome.state is State.FAILED
    assert str(results.trial(trial.identity).run_path) in str(outcome.reason)


def test_an_outcome_that_the_results_folder_does_not_show_is_a_failure_there(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "APPEARANCE_SECONDS", 0.0)
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path / "here")
    assert run_trial(trial, ResultsFolder(tmp_path / "elsewhere"), device="cpu").state is State.FINISHED
    outcome = recorded(trial, results, Outcome(State.FINISHED))
    assert outcome.state is State.FAILED
    assert str(results.trial(trial.identity).path) in str(outcome.reason)
    assert results.reading(trial.identity).state(trial.evaluation) == (outcome.state, outcome.reason)

    other = small.make_trial(tiny_store, seed=2)
    assert recorded(other, results, Outcome(State.FAILED, "not seen")) == Outcome(State.FAILED, "not seen")
    assert results.reading(other.identity).state(other.evaluation) == (State.FAILED, "not seen")

    third = small.make_trial(tiny_store, seed=3)
    assert recorded(third, results, Outcome(State.LOST, "not seen")) == Outcome(State.FAILED, "not seen")

    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    assert recorded(trial, results, Outcome(State.FINISHED)) == Outcome(State.FINISHED)
    assert recorded(trial, results, Outcome(State.STOPPED, "why")) == Outcome(State.STOPPED, "why")


def test_a_trial_stops_during_its_evaluation_with_the_reason_and_evaluates_later(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    trained = results.trial(trial.identity).training_path
    stopped = run_trial(
        trial, results, device="cpu", should_stop=trained.exists, stop_reason=lambda: "stopped by the budget"
    )
    assert stopped.state is State.STOPPED
    assert str(stopped.reason).startswith("stopped by the budget")
    assert small.epochs(tmp_path) == {trial.identity: [1, 2, 3]}
    before = small.weights(tmp_path)
    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    assert small.weights(tmp_path) == before
    assert small.epochs(tmp_path) == {trial.identity: [1, 2, 3]}


def test_a_trial_continues_an_equal_one_that_ended_early_and_has_the_bits_of_a_whole_training(
    tiny_store: Path, tmp_path: Path
) -> None:
    whole, second, first = (
        small.make_trial(tiny_store, training__stop_after=stop, training__lr_drop_epoch=1) for stop in (None, 2, 1)
    )
    assert whole.whole == second.whole == first.whole == whole.identity
    plain = ResultsFolder(tmp_path / "plain")
    assert run_trial(whole, plain, device="cpu").state is State.FINISHED

    results, trained = ResultsFolder(tmp_path / "continued"), []
    linked_trials = list(linked({trial.key: trial for trial in (whole, first, second)}).values())
    assert [trial.continues for trial in linked_trials] == [(second.identity, first.identity), (), (first.identity,)]
    for trial in (linked_trials[1], linked_trials[2], linked_trials[0]):
        outcome = run_trial(trial, results, device="cpu", report=lambda epoch: trained.append(epoch.epoch))
        assert outcome.state is State.FINISHED
    assert trained == [1, 2, 3]
    one, other = plain.reading(whole.identity), results.reading(whole.identity)
    assert one.training is not None
    assert other.training is not None
    assert one.training["weights_sha256"] == other.training["weights_sha256"]
    assert [record["step"] for record in other.epochs] == [1, 2, 3]
    assert one.curve("loss.total") == other.curve("loss.total")
    assert [r["identity"] for r in other.records if r["kind"] == "continued"] == [second.identity]


def test_a_trial_does_not_continue_a_training_that_is_unfinished_damaged_or_without_optimiser(
    tiny_store: Path, tmp_path: Path
) -> None:
    whole, early = (small.make_trial(tiny_store, training__stop_after=stop) for stop in (None, 1))
    whole = linked({trial.key: trial for trial in (whole, early)})[whole.key]
    results = ResultsFolder(tmp_path)

    def epochs() -> list[int]:
        trained: list[int] = []
        shutil.rmtree(results.trial(whole.identity).path, ignore_errors=True)
        assert run_trial(whole, results, device="cpu", report=lambda epoch: trained.append(epoch.epoch)).state
        return trained

    assert epochs() == [1, 2, 3]  # it does not exist
    run_trial(early, results, device="cpu")
    assert epochs() == [2, 3]
    folder = results.trial(early.identity)
    folder.retention_path.write_text("{}")
    assert epochs() == [1, 2, 3]
    folder.retention_path.unlink()
    weights = folder.checkpoint_path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    assert epochs() == [1, 2, 3]

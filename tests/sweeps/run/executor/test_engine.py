"""A real Ray with sources that decide what to train while other trials run."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storage import failpoints
from sweeps.service.run.executor.ray_environment import set_ray_environment
from sweeps.service.run.preflight import own_facts
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import Exhausted, PlannedTrials, Training
from sweeps.service.run.worker import Outcome
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import SLOTS_FILE, ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.sweeps import small

pytestmark = pytest.mark.service

ONE = Resources(cpus=1, gpus=0)


class Recorded:
    """A listener that keeps what it receives."""

    def __init__(self) -> None:
        self.epochs: list[tuple[str, int]] = []
        self.outcomes: list[tuple[str, Outcome]] = []

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        self.epochs.append((key, values["epoch"]))

    def ended(self, key: str, outcome: Outcome) -> None:
        self.outcomes.append((key, outcome))

    def note(self, text: str, key: str | None = None) -> None:
        pass


class Retrying:
    """Supplies a trial after the outcome of the one before, such as a failed one again with another store.

    Between an outcome and the next trial it has nothing to offer for a while.
    """

    def __init__(self, *steps: Trial, pause: float) -> None:
        self.steps, self.pause = list(steps), pause
        self.running: Trial | None = None
        self.waits = 0
        self.not_before = 0.0
        self.outcomes: list[tuple[Trial, State]] = []

    def next_training(self) -> Training | None:
        if self.running is not None or time.monotonic() < self.not_before:
            self.waits += 1
            return None
        if not self.steps:
            raise Exhausted
        self.running = self.steps.pop(0)
        return (self.running,)

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        assert trial == self.running
        self.running = None
        self.not_before = time.monotonic() + self.pause
        self.outcomes.append((trial, outcome.state))


def test_a_source_supplies_further_trainings_after_outcomes_until_it_is_exhausted(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ray_environment()
    from sweeps.service.run.executor.engine import Ending, run_trials
    from sweeps.service.run.executor.workplace import Workplace

    results = ResultsFolder(tmp_path / "results")
    workplace = Workplace(results=results, scratch=results.running("source"), device="cpu", command="a test")
    trial, deadly, last = (small.make_trial(tiny_store, training__epochs=1, seed=seed) for seed in (1, 2, 3))
    broken = dataclasses.replace(trial, store=str(tmp_path / "gone"))
    mended = dataclasses.replace(broken, store=str(tiny_store))
    source, listener = Retrying(broken, mended, deadly, last, pause=1.0), Recorded()
    monkeypatch.setenv(failpoints.VARIABLE, f"sweeps.worker.begun.{deadly.identity}:1:kill")
    assert run_trials(source, workplace, ONE, listener) == Ending()
    states = [State.FAILED, State.FINISHED, State.FAILED, State.FINISHED]
    assert source.outcomes == list(zip((broken, mended, deadly, last), states, strict=True))
    assert source.waits > 0
    keys = (trial.key, trial.key, deadly.key, last.key)
    assert [(key, outcome.state) for key, outcome in listener.outcomes] == list(zip(keys, states, strict=True))
    assert str(tmp_path / "gone") in str(listener.outcomes[0][1].reason)
    assert " 3 times" in str(listener.outcomes[2][1].reason), "its worker process died"
    assert small.statuses(results.path) == {
        trial.identity: ["running", "failed", "running", "finished"],
        deadly.identity: ["running", "running", "running", "failed"],
        last.identity: ["running", "finished"],
    }
    assert not workplace.stop_file.exists()


def test_a_plan_runs_each_training_with_all_its_evaluations(tiny_store: Path, tmp_path: Path) -> None:
    set_ray_environment()
    from sweeps.service.run.executor.engine import Ending, run_trials
    from sweeps.service.run.executor.workplace import Workplace

    results = ResultsFolder(tmp_path / "results")
    workplace = Workplace(results=results, scratch=results.running("plan"), device="cpu")
    workplace.scratch.mkdir(parents=True)
    trials = [small.make_trial(tiny_store, training__epochs=2, decoding__beam=beam) for beam in (1, 2)]
    listener = Recorded()
    assert run_trials(PlannedTrials(trials), workplace, ONE, listener) == Ending()
    assert listener.outcomes == [(trial.key, Outcome(State.FINISHED)) for trial in trials]
    assert int((workplace.scratch / SLOTS_FILE).read_text()) >= 1
    assert listener.epochs[-1] == (trials[0].key, 2)
    (epochs,) = small.epochs(results.path).values()
    assert epochs == [1, 2]
    assert len(results.reading(trials[0].identity).results) == 2


def outside_tune(
    monkeypatch: pytest.MonkeyPatch, trainable: Any, *, gpus: float = 0.0, report: Any = lambda _: None
) -> None:
    """Lets a trial's function run in this process, with two cores and some GPUs."""
    resources = SimpleNamespace(required_resources={"CPU": 2.0, "GPU": gpus})
    context = SimpleNamespace(get_trial_resources=lambda: resources)
    monkeypatch.setattr(trainable.tune, "get_context", lambda: context)
    monkeypatch.setattr(trainable.tune, "report", report)
    node = SimpleNamespace(address="a", identity="1", reason="", is_terminated=False)
    monkeypatch.setattr(trainable, "here", lambda: node)


@pytest.mark.parametrize(("driver", "worker", "seen"), [(":16:8", None, ":16:8"), (None, ":4096:2", ":4096:2")])
def test_a_worker_has_the_workspace_of_cublas_that_the_driver_has_or_its_own(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str | None, worker: str | None, seen: str
) -> None:
    set_ray_environment()
    from sweeps.service.run.executor import trainable
    from sweeps.service.run.executor.workplace import Workplace

    def choose(value: str | None) -> None:
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
        if value is not None:
            monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", value)

    choose(driver)
    results = ResultsFolder(tmp_path / "results")
    workplace = Workplace(results=results, scratch=results.running("plan"), device="cpu")
    request = workplace.request((small.make_trial(tiny_store),))
    found: list[str | None] = []

    def run_trial(*_: object, **__: object) -> Outcome:
        found.append(os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
        return Outcome(State.FINISHED)

    monkeypatch.setattr(trainable, "run_trial", run_trial)
    outside_tune(monkeypatch, trainable)
    choose(worker)
    trainable.train_trial(request)
    assert found == [seen]


def test_a_worker_that_does_not_see_the_mark_of_the_sweep_trains_nothing_until_it_does(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ray_environment()
    from sweeps.service.run.executor import trainable
    from sweeps.service.run.executor.workplace import Workplace

    results = ResultsFolder(tmp_path / "results")
    scratch = results.running("plan")
    scratch.mkdir(parents=True)
    facts = own_facts(str(tiny_store))
    workplace = Workplace(results=results, scratch=scratch, device="cpu", mark=scratch / "sweep-1", facts=facts)
    reports: list[dict[str, Any]] = []
    monkeypatch.setattr(trainable, "MARK_SECONDS", 0.0)
    monkeypatch.setattr(trainable, "time", SimpleNamespace(sleep=lambda _: (scratch / "sweep-1").touch()))
    outside_tune(monkeypatch, trainable, report=reports.append)
    trial = small.make_trial(tiny_store, training__epochs=1)
    trainable.train_trial(workplace.request((trial,)))
    assert [sorted(report) for report in reports] == [["key", "node", "refused"], ["accepted", "key", "node"]]
    assert str(results.path) in reports[0]["refused"]
    assert sorted(results.path.rglob("*")) == [results.path / "running", scratch, scratch / "sweep-1"]
    monkeypatch.undo()
    outside_tune(monkeypatch, trainable, report=reports.append)
    trainable.train_trial(workplace.request((trial,)))
    assert reports[-1]["state"] == "finished"


def test_a_worker_on_a_gpu_is_limited_to_the_share_of_its_trial(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ray_environment()
    from sweeps.service.run.executor import trainable
    from sweeps.service.run.executor.workplace import Workplace

    results, shares = ResultsFolder(tmp_path), []
    request = Workplace(results=results, scratch=tmp_path, device="cuda").request((small.make_trial(tiny_store),))
    outside_tune(monkeypatch, trainable, gpus=0.25)
    monkeypatch.setattr(trainable, "limit_gpu_memory", shares.append)
    monkeypatch.setattr(trainable, "run_trial", lambda *_, **__: Outcome(State.FINISHED))
    trainable.train_trial(request)
    assert shares == [0.25]


def test_a_trial_that_is_asked_records_what_it_uses_of_its_machine(
    tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_ray_environment()
    from sweeps.service.run.executor import trainable
    from sweeps.service.run.executor.workplace import Workplace

    results, shares = ResultsFolder(tmp_path), {"scratch": tmp_path, "device": "cpu", "sweep": tmp_path / "sweep"}
    outside_tune(monkeypatch, trainable, gpus=0.0)
    measured = []
    for asked, seed in ((False, 1), (True, 2)):
        trial = small.make_trial(tiny_store, seed=seed)
        workplace = Workplace(results=results, **shares, system_metrics=asked)
        trainable.train_trial(workplace.request((trial,)))
        epochs = [one["metrics"] for one in small.journals(tmp_path)[trial.identity] if one["kind"] == "epoch"]
        measured += [{name: value for name, value in one.items() if name.startswith("system.")} for one in epochs]
    assert measured[:3] == [{}] * 3
    assert all(one["system.cpu_percent"] > 0 and one["system.memory_megabytes"] > 50 for one in measured[3:])


def test_a_trial_that_has_ended_takes_no_memory() -> None:
    set_ray_environment()
    from ray.tune.experiment import Trial as TuneTrial

    from sweeps.service.run.executor.tuning import Channel, Relay

    trials = [TuneTrial("train", config={"job": number}, stub=True) for number in range(3)]
    ended = trials[1]
    ended.run_metadata.update_metric("loss.total", 0.5)
    ended.set_status(TuneTrial.TERMINATED)
    kept = [trials[0], trials[2]]
    Relay(Channel.__new__(Channel)).on_step_end(iteration=1, trials=trials)
    assert trials == kept
    assert [trial.config["job"] for trial in kept] == [0, 2]
    assert not ended.config
    assert not ended.run_metadata.metric_analysis

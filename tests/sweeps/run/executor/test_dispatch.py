"""What runs next and what runs again, without Ray; a trial that diverges has an outcome without a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.run.executor.cluster.nodes import Node
from sweeps.service.run.executor.dispatch import RETRIES, Dispatch
from sweeps.service.run.executor.workplace import Workplace
from sweeps.service.run.preflight import marked
from sweeps.service.run.resources import Resources
from sweeps.service.run.source import Exhausted, PlannedTrials, Training, TrialSource
from sweeps.service.run.worker import Outcome
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.sweeps.run.test_source import trial


class Following:
    """Supplies each trial after the one before has ended."""

    def __init__(self, *trials: Trial) -> None:
        self.waiting = list(trials)
        self.running: Trial | None = None
        self.outcomes: list[State] = []

    def next_training(self) -> Training | None:
        if self.running is not None:
            return None
        if not self.waiting:
            raise Exhausted
        self.running = self.waiting.pop(0)
        return (self.running,)

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        assert trial == self.running
        self.running = None
        self.outcomes.append(outcome.state)


class Heard:
    """A listener that keeps outcomes and notes."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.notes: list[str] = []

    def epoch(self, key: str, values: object) -> None:
        pass

    def ended(self, key: str, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def note(self, text: str, key: str | None = None) -> None:
        self.notes.append(text)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def dispatch(source: TrialSource, heard: Heard, folder: Path) -> Dispatch:
    results = ResultsFolder(folder)
    workplace = Workplace(results=results, scratch=results.running("test"), device="cpu")
    made = Dispatch(source, workplace, Resources(cpus=1, gpus=0), heard)
    made.nodes = {"here": Node("1", (3.0, 0.0))}
    return made


def taken(of: Dispatch) -> tuple[int, float, list[int]]:
    """Number, cores and seeds of the next job."""
    config = of.next_config()
    assert config is not None
    seeds = [one["seed"] for one in json.loads(config["request"])["trials"]]
    return config["job"], config["cpus"], seeds


def end(of: Dispatch, job: int, one: Trial, state: State, **values: Any) -> None:
    of.report(job, {"key": one.key, "state": state.value, "reason": "why", "cause": None, "last": True, **values})
    of.left(job)


def test_the_next_training_waits_for_the_source_and_the_end_comes_with_the_last_outcome(
    heard: Heard, tmp_path: Path
) -> None:
    trials = [trial(seed=1), trial(seed=2)]
    source = Following(*trials)
    of = dispatch(source, heard, tmp_path)
    for one in trials:
        job, _, seeds = taken(of)
        assert seeds == [one.config.seed]
        assert of.next_config() is None
        of.started(job)
        assert (of.n_inside, of.n_running, of.is_over) == (1, 1, False)
        end(of, job, one, State.DIVERGED)
    assert of.next_config() is None
    assert of.is_over
    assert source.outcomes == [State.DIVERGED, State.DIVERGED]


def test_a_lost_trial_runs_again_a_bounded_number_of_times(heard: Heard, tmp_path: Path) -> None:
    one = trial()
    of = dispatch(PlannedTrials([one]), heard, tmp_path)
    for _ in range(RETRIES["lost"]):
        end(of, taken(of)[0], one, State.LOST)
        assert not heard.outcomes
    end(of, taken(of)[0], one, State.LOST)
    assert of.next_config() is None
    assert of.is_over
    assert [outcome.state for outcome in heard.outcomes] == [State.FAILED]  # nothing in its directory shows a worker


def test_only_the_evaluations_that_a_dead_worker_left_run_again(heard: Heard, tmp_path: Path) -> None:
    trials = [trial(decoding__beam=1), trial(decoding__beam=3)]
    of = dispatch(PlannedTrials(trials), heard, tmp_path)
    job, _, seeds = taken(of)
    assert seeds == [1, 1]
    of.report(job, {"key": trials[0].key, "state": "diverged", "reason": None, "cause": None, "last": False})
    of.died(job, "1\nActorDiedError", of_memory=False)
    job, _, seeds = taken(of)
    assert seeds == [1]
    end(of, job, trials[1], State.DIVERGED)
    assert [outcome.state for outcome in heard.outcomes] == [State.DIVERGED] * 2


def test_a_trial_whose_worker_dies_too_often_fails(heard: Heard, tmp_path: Path) -> None:
    one = trial()
    of = dispatch(PlannedTrials([one]), heard, tmp_path)
    for _ in range(RETRIES["died"] + 1):
        of.died(taken(of)[0], "1\nActorDiedError: gone", of_memory=False)
    assert of.next_config() is None
    assert of.is_over
    (outcome,) = heard.outcomes
    assert outcome.state is State.FAILED
    assert "ActorDiedError" in str(outcome.reason)


@pytest.mark.parametrize("killed", [True, False])
def test_a_trial_without_memory_runs_once_more_with_twice_the_cores_and_then_fails_with_advice(
    heard: Heard, tmp_path: Path, killed: bool
) -> None:
    one = trial()
    of = dispatch(PlannedTrials([one]), heard, tmp_path)
    for cores in (1.0, 2.0):
        job, cpus, _ = taken(of)
        assert cpus == cores
        if killed:
            of.died(job, "1\nActorDiedError: gone", of_memory=True)
        else:
            end(of, job, one, State.FAILED, reason="out of memory: MemoryError", cause="memory")
    assert of.next_config() is None
    assert of.is_over
    assert len(heard.notes) == 1
    (outcome,) = heard.outcomes
    assert outcome.state is State.FAILED
    assert "out of memory" in str(outcome.reason)
    assert "--cpus-per-trial 2" in str(outcome.reason)


def test_trainings_of_a_dead_ray_run_first_and_it_counts_as_no_failure(heard: Heard, tmp_path: Path) -> None:
    trials = [trial(seed=seed) for seed in (1, 2, 3)]
    of = dispatch(PlannedTrials(trials), heard, tmp_path)
    for _ in range(5):
        assert [taken(of)[2], taken(of)[2]] == [[1], [2]]
        of.ray_died()
        assert of.n_inside == 0
    assert [taken(of)[2] for _ in trials] == [[1], [2], [3]]


NODE_DIED = "1\nActorDiedError: ...\n\tip: 10.0.0.3\nThe actor died because its node has died. Node Id: 97ba"


@pytest.mark.parametrize(
    "end_of_attempt",
    [
        lambda of, job, _: of.died(job, NODE_DIED, of_memory=False),
        lambda of, job, one: of.report(job, {"key": one.key, "leaves": "node a drains", "terminated": False}),
        lambda of, job, one: of.report(job, {"key": one.key, "refused": "node a: other", "node": "a"}),
    ],
)
def test_a_trial_whose_node_is_lost_or_drains_or_refuses_runs_first_and_it_counts_as_no_failure(
    heard: Heard, tmp_path: Path, end_of_attempt: Any
) -> None:
    one = trial(seed=1)
    of = dispatch(PlannedTrials([one, trial(seed=2)]), heard, tmp_path)
    for _ in range(8):
        job, _, seeds = taken(of)
        assert seeds == [1]
        of.started(job)
        end_of_attempt(of, job, one)
        of.left(job)
        of.died(job, "1\nActorDiedError", of_memory=False)  # the process ends after it has handed the trial back
        assert of.n_inside == 0
    assert not heard.outcomes
    assert heard.notes


def test_sigterm_to_the_process_of_a_trial_is_counted_apart_from_its_deaths(heard: Heard, tmp_path: Path) -> None:
    one = trial()
    of = dispatch(PlannedTrials([one]), heard, tmp_path)
    for _ in range(RETRIES["terminated"] + 1):
        assert not heard.outcomes
        of.report(taken(of)[0], {"key": one.key, "leaves": "its process received SIGTERM", "terminated": True})
    assert of.next_config() is None
    assert of.is_over
    assert [outcome.state for outcome in heard.outcomes] == [State.FAILED]


def test_a_cluster_whose_nodes_all_refuse_ends_the_sweep_until_one_accepts(heard: Heard, tmp_path: Path) -> None:
    one = trial()
    of = dispatch(PlannedTrials([one]), heard, tmp_path)
    of.nodes = {"10.0.0.2": Node("a", (3.0, 0.0)), "10.0.0.3": Node("b", (1.0, 0.0)), "head": Node("c", (0.0, 0.0))}
    assert (of.refusals, len(of.usable)) == ("", 3)
    for node in "ab":
        assert of.refusals == ""
        of.report(taken(of)[0], {"key": one.key, "refused": f"node {node}: other", "node": node})
    assert of.refusals == "node a: other; node b: other"
    assert list(of.usable) == ["head"]
    of.report(99, {"key": one.key, "accepted": True, "node": "b"})
    assert (of.refusals, list(of.usable)) == ("", ["10.0.0.3", "head"])


def test_an_unwritable_results_folder_is_an_obstacle(heard: Heard, tmp_path: Path) -> None:
    one = trial()
    of = dispatch(PlannedTrials([one]), heard, tmp_path)
    end(of, taken(of)[0], one, State.STOPPED, reason="the results folder is full", cause="storage")
    assert of.obstacle == "the results folder is full"


def test_a_driver_whose_mark_another_one_has_removed_is_superseded(heard: Heard, tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    results.running("test").mkdir(parents=True)
    with marked(results, "test") as mark:
        workplace = Workplace(results=results, scratch=results.running("test"), device="cpu", mark=mark)
        frozen = Dispatch(PlannedTrials([]), workplace, Resources(cpus=1, gpus=0), heard)
        assert not frozen.is_superseded
        with marked(results, "test"):
            assert frozen.is_superseded

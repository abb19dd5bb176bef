"""A sweep that stops after identical failures: the source of its trials."""

from pathlib import Path

import pytest

from sweeps.service.run.source import Exhausted, PlannedTrials
from sweeps.service.run.stopping import StopAfterFailures
from sweeps.service.run.worker import Outcome
from sweeps.service.trials.folder import State
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.sweeps import small


class Heard(PlannedTrials):
    """A source that keeps what it receives."""

    def __init__(self, trials: list[Trial]) -> None:
        super().__init__(trials)
        self.outcomes: list[tuple[Trial, Outcome]] = []

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        self.outcomes.append((trial, outcome))


@pytest.fixture(scope="module")
def trials(tiny_store: Path) -> list[Trial]:
    return [small.make_trial(tiny_store, seed=seed) for seed in range(1, 8)]


def fails(results: ResultsFolder, source: StopAfterFailures, trial: Trial, reason: str, message: str = "") -> None:
    """A trial ends with a reason, and with a recorded error if a message is given."""
    with Journal(results.trial(trial.identity).journal_path) as journal:
        failure = {"exception": "KeyError", "message": message, "file": "a.py", "line": 3, "function": "f", "rule": ""}
        journal.status("failed", reason=reason, host="h", pid=1, failure=failure if message else None)
    source.ended(trial, Outcome(State.FAILED, reason))


def test_the_source_ends_and_asks_to_stop_once_after_k_identical_failures(trials: list[Trial], tmp_path: Path) -> None:
    results, stop, planned = ResultsFolder(tmp_path), tmp_path / "stop", Heard(trials)
    source = StopAfterFailures(planned, 3, results.reading, stop)
    assert source.next_training() == (trials[0],)
    fails(results, source, trials[0], "KeyError: 'a'", "'a'")
    fails(results, source, trials[1], "another one")
    fails(results, source, trials[2], "KeyError: 'b'", "'b'")
    source.ended(trials[3], Outcome(State.FINISHED))
    fails(results, source, trials[0], "KeyError: 'a'", "'a'")  # another evaluation of the same training
    assert source.group is None
    assert not stop.exists()
    assert source.next_training() == (trials[1],)
    fails(results, source, trials[4], "KeyError: 'c'", "'c'")
    assert "3" in stop.read_text()
    assert source.group is not None
    assert source.group.trials == tuple(trials[i].identity for i in (0, 2, 4))
    with pytest.raises(Exhausted):
        source.next_training()
    stop.unlink()
    fails(results, source, trials[5], "KeyError: 'd'", "'d'")
    assert not stop.exists()
    assert len(source.group.trials) == 3
    assert [trial for trial, _ in planned.outcomes] == [trials[i] for i in (0, 1, 2, 3, 0, 4, 5)]


def test_without_a_number_failures_end_nothing(trials: list[Trial], tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    source = StopAfterFailures(PlannedTrials(trials), None, results.reading, tmp_path / "stop")
    for trial in trials:
        fails(results, source, trial, "the same")
    assert [source.next_training() for _ in trials] == [(trial,) for trial in trials]

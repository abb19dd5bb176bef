"""The last line of a budget: what is left of it, and which larger one goes on."""

import re
import time
from pathlib import Path

from mucon.config import TrainConfig
from sweeps.service.run.budget.budgeting import Budgeting
from sweeps.service.run.budget.limits import Budget, Limit
from sweeps.service.run.resources import Placement, Resources
from sweeps.service.run.source import PlannedTrials
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

LIMITS = Budget(
    time=Limit(10.0, "--time-budget", "--time-budget"), cpu_hours=Limit(7200.0, "--cpu-hours", "MUCON_MAX_CPU_HOURS")
)


def proposed(folder: Path, *finished: float) -> float:
    """Seconds of the proposed budget, a quarter of an hour after a command began that has one trial to run.

    Args:
        folder: the results folder.
        finished: durations of other trainings.
    """
    trials = [
        Trial.of(TrainConfig().override("seed", seed), split="1", data_fingerprint="f" * 16, store="/data/stores/tiny")
        for seed in range(1, len(finished) + 2)
    ]
    scores = [{"full": {"mof": 0.5, "training_seconds": seconds}} for seconds in finished]
    results = {trials[0].key: CellResult(State.MISSING)}
    results |= {one.key: CellResult(State.FINISHED, scores=of) for one, of in zip(trials[1:], scores, strict=True)}
    budgeting = Budgeting(
        LIMITS,
        trials[:1],
        started=time.monotonic() - 900,
        sweep=folder,
        trials={one.key: one for one in trials},
        results=results,
        folder=ResultsFolder(folder),
        placement=Placement(device="cpu", each=Resources(cpus=1, gpus=0), slots=1),
    )
    assert budgeting.source(PlannedTrials(trials[:1])) is None, "the budget is used up"
    (line,) = budgeting.lines(results)
    options = line.rpartition("; ")[2]
    assert ("--cpu-hours" in options) is not bool(finished), "two hours cover a training of a known duration"
    (minutes,) = re.findall(r"--time-budget (\d+)m", options)
    return 60 * int(minutes)


def test_the_proposed_time_covers_the_start_besides_the_trainings(tmp_path: Path) -> None:
    assert proposed(tmp_path) >= 2 * 900, "nothing is known of the training"
    assert 900 + 300 <= proposed(tmp_path, 300.0) < 900 + 2 * 300

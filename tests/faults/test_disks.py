"""Disks that fail under a trial: what its checkpoint relies on is not lost."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from sweeps.service.run.worker import run_trial
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.disks import disk
from tests.sweeps import small

WORKER = (
    "import sys, pathlib; from sweeps.service.run.worker import run_trial; from tests.sweeps import small; "
    "from sweeps.service.trials.results_folder import ResultsFolder; "
    "trial = small.make_trial(pathlib.Path(sys.argv[1])); "
    "run_trial(trial, ResultsFolder(pathlib.Path(sys.argv[2])), device='cpu', checkpoint_seconds=0)"
)


@pytest.mark.repeated(ci=1, soak=20)
def test_a_machine_that_loses_power_keeps_the_records_of_the_epochs_of_its_checkpoint(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial = small.make_trial(tiny_store)
    with disk(tmp_path / "disk") as broken:
        results = broken.path / "results"
        line = [sys.executable, "-c", WORKER, str(tiny_store), str(results)]
        with small.started(line, tmp_path / "log", MUCON_FAILPOINT="training.step:14:hang") as worker:
            small.wait_until(lambda: small.epochs(results).get(trial.identity) == [1, 2])
            small.wait_until((results / "trials" / trial.identity / "run" / "checkpoint").exists)
            broken.fail()
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        broken.mend()
        for lease in results.glob("trials/*/lease-*.json"):
            os.utime(lease, (0, 0))  # as after the duration of the lease
        run_trial(trial, ResultsFolder(results), device="cpu")
        assert small.epochs(results)[trial.identity] == [1, 2, 3]
        run_trial(trial, ResultsFolder(tmp_path / "alone"), device="cpu")
        assert small.weights(results) == small.weights(tmp_path / "alone")

"""Repeats one trial in the foreground, in a copy, without Ray."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mucon.errors import InputError, Problem
from mucon.training import EpochReport
from sweeps.service.plan.recordings import absolute
from sweeps.service.run.worker import Outcome, run_trial
from sweeps.service.trials import lease
from sweeps.service.trials.folder import WHOLE_TRIAL_SHAPE, TrialFolder, read_versioned
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """How a trial is repeated.

    Attributes:
        device: `auto` takes the kind of device on which the trial was trained last.
        store: current place of the recordings; None: unchanged.
        from_start: train from the first epoch rather than from the last checkpoint.
    """

    device: str = "auto"
    store: Path | None = None
    from_start: bool = False


def repeat(
    reading: TrialReading,
    how: Repetition,
    *,
    report: Callable[[EpochReport], None],
    failed: Callable[[Exception], None],
) -> Outcome:
    """Repeats what is missing of a trial in a temporary directory; nothing of the trial itself changes.

    Args:
        reading: the trial.
        how: from where and on what.
        report: called after each epoch.
        failed: receives the error that ended the repetition, with its traceback.

    Returns:
        How the repetition ended.

    Raises:
        InputError: the trial has not started or a process runs it now, or its trial.json is damaged.
    """
    folder = reading.folder
    if not reading.exists:
        message, hint = "the trial has not started", "run its sweep first"
        raise InputError(Problem(rule="state", place=str(folder.path), value="pending", message=message, hint=hint))
    holder = lease.holder(folder.path)
    if holder is not None:
        message, hint = f"{holder} runs the trial", "stop its sweep first, or wait"
        raise InputError(Problem(rule="busy", place=str(folder.path), value="running", message=message, hint=hint))
    trial = Trial.from_dict(read_versioned(folder.trial_path, WHOLE_TRIAL_SHAPE))
    if how.store is not None:
        trial = replace(trial, store=absolute(how.store))
    device = how.device
    if device == "auto" and not reading.damage:
        device = str(reading.training_environment.get("device", "auto"))
    with tempfile.TemporaryDirectory(prefix="debug-") as temporary:
        scratch = ResultsFolder(Path(temporary))
        if not how.from_start:
            _copy(folder, scratch.trial(trial.identity))
        return run_trial(trial, scratch, device=device, report=report, failed=failed)


def _copy(folder: TrialFolder, copy: TrialFolder) -> None:
    """Copies the checkpoint and the mark of a finished training."""
    copy.path.mkdir(parents=True)
    if folder.run_path.is_dir():
        shutil.copytree(folder.run_path, copy.run_path)
    if folder.training_path.is_file():
        shutil.copyfile(folder.training_path, copy.training_path)

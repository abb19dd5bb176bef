"""Repeats one trial in the foreground, in a copy, without Ray."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mucon.errors import InputError, Problem
from mucon.training import EpochReport
from storage.remote.addresses import StorePlace, absolute
from sweeps.service.run.worker import Outcome, run_trial
from sweeps.service.triage.naming import Named
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
    store: StorePlace | None = None
    from_start: bool = False


def trial_of(named: Named) -> Trial:
    """The trial to repeat; of several evaluations of a training, the first one without a result.

    Raises:
        InputError: the trial has not started, or its trial.json is damaged.
    """
    folder = named.reading.folder
    if not named.reading.exists:
        message, hint = "the trial has not started", "run its sweep first"
        raise InputError(Problem(rule="state", place=str(folder.path), value="missing", message=message, hint=hint))
    recorded = Trial.from_dict(read_versioned(folder.trial_path, WHOLE_TRIAL_SHAPE))
    if folder.result_path(recorded.evaluation).exists():
        for place in named.places:
            if not folder.result_path(place.cell.evaluation).exists():
                asked = place.trial(recorded.data_fingerprint)
                if asked is not None:  # stored under the names of the plan, see `as_stored`
                    return replace(asked, identity=folder.identity, evaluation=place.cell.evaluation)
    return recorded


def repeat(
    trial: Trial,
    before: TrialReading,
    how: Repetition,
    *,
    report: Callable[[EpochReport], None],
    failed: Callable[[Exception], None],
) -> Outcome:
    """Repeats what is missing of a trial in a temporary directory; nothing of the trial itself changes.

    Args:
        trial: the trial.
        before: its directory.
        how: from where and on what.
        report: called after each epoch.
        failed: receives the error that ended the repetition, with its traceback.

    Returns:
        How the repetition ended.

    Raises:
        InputError: a process runs the trial now.
    """
    folder = before.folder
    holder = lease.holder(folder.path)
    if holder is not None:
        message, hint = f"{holder} runs the trial", "stop its sweep first, or wait"
        raise InputError(Problem(rule="busy", place=str(folder.path), value="running", message=message, hint=hint))
    if how.store is not None:
        trial = replace(trial, store=absolute(how.store))
    device = how.device
    if device == "auto" and not before.damage:
        device = str(before.training_environment.get("device", "auto"))
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

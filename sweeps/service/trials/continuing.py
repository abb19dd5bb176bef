"""Trainings that go on where an equal one has ended early, see `TrainingConfig.stop_after`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

from mucon import checkpoint_files as files
from mucon.errors import InputError
from mucon.identity.weights import tensors_sha256
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.journal import Journal, milliseconds
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.trial import Trial


def linked(trials: Mapping[str, Trial]) -> dict[str, Trial]:
    """The trials of a plan, each with the trainings that it can continue.

    Args:
        trials: key -> trial.
    """
    ends: dict[str, dict[str, int]] = {}
    for trial in trials.values():
        ends.setdefault(trial.whole, {})[trial.identity] = trial.training.last_epoch

    def continues(trial: Trial) -> tuple[str, ...]:
        earlier = {one: end for one, end in ends[trial.whole].items() if end < trial.training.last_epoch}
        return tuple(sorted(earlier, key=lambda one: -earlier[one]))

    return {key: replace(trial, continues=continues(trial)) for key, trial in trials.items()}


def take_up(trial: Trial, folder: TrialFolder, journal: Journal) -> str | None:
    """Copies checkpoint and epochs of the longest finished training that a trial continues, unless it has begun itself.

    Training resumes from the copy and ends with the bits of a training without a stop. A training that is unfinished,
    damaged, or without the state of its optimiser is not used.

    Args:
        trial: the trial.
        folder: its directory, with the right to write.
        journal: its journal.

    Returns:
        The identity of the training that it continues; None if it begins by itself, or has begun.
    """
    if files.exists(folder.checkpoint_path):
        return None
    for identity in trial.continues:
        other = TrialFolder(folder.path.parent / identity)
        reading = TrialReading(other)
        with contextlib.suppress(InputError):
            if reading.damage is not None or reading.training is None or other.retention_path.exists():
                continue
            saved = files.read(other.checkpoint_path)
            if tensors_sha256(saved.weights) != reading.training["weights_sha256"]:
                continue
            for record in reading.epochs:
                journal.epoch(record["step"], record["metrics"], record["timestamp"])
            epoch = saved.progress.epoch
            continued = {"kind": "continued", "timestamp": milliseconds(), "identity": identity, "epoch": epoch}
            journal.append(continued, durably=True)
            files.write(folder.checkpoint_path, saved, folder.writer)
            return identity
    return None

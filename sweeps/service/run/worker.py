"""What a trial does, in whatever process: train, evaluate, and write both into the trial's folder.

This module knows neither Ray nor MLflow, so that a trial runs the same inside a sweep and alone.
"""

from __future__ import annotations

import math
import os
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mucon import checkpoint, failpoints
from mucon.errors import Diverged, InputError, Interrupted
from mucon.evaluation import Evaluation, evaluate
from mucon.inference import PREDICTIONS
from mucon.training import EpochReport, train
from mucon.videos import videos_of, vocabulary_of
from storage import open_store
from sweeps.service.trials import journal, lease, provenance
from sweeps.service.trials.folder import State, TrialFolder, write_json
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.lease import Lease, LeaseLostError
from sweeps.service.trials.trial import Trial

WAITING = 0.5
"""Seconds between two looks at a trial that another process trains."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended, with the reason where it has one."""

    state: State
    reason: str | None = None


def run_trial(
    trial: Trial,
    results: Path,
    *,
    device: str = "auto",
    should_stop: Callable[[], bool] = lambda: False,
    report: Callable[[EpochReport], None] = lambda _: None,
    lease_duration: float = lease.DURATION,
    command: str = "",
) -> Outcome:
    """Trains and evaluates a trial, as far as that was not done yet, or waits for the process that does.

    Args:
        trial: what to do.
        results: the folder of all trials' folders' parent.
        device: `auto`, `cpu` or `cuda`.
        should_stop: asked before every step; once it is true, a checkpoint is written and the trial is stopped.
        report: told of each epoch that finishes here.
        lease_duration: seconds after which the trial of a process that fell silent is another's.
        command: the command line for which it runs, for the record; when empty, this process's own.

    Returns:
        The outcome, which stands in the trial's folder too; a trial's failure is an outcome, not an exception.
    """
    folder = TrialFolder(results.absolute() / "trials" / trial.identity)
    while (held := lease.acquire(folder.path, duration=lease_duration)) is None:
        if should_stop():
            return Outcome(State.STOPPED, "stopped while another process trained it")
        time.sleep(WAITING)
    with held:
        if folder.result(trial.evaluation) is not None:
            return Outcome(State.FINISHED)
        if should_stop():
            return Outcome(*folder.state(trial.evaluation))
        with Journal(folder.journal_path) as written:
            return _recorded(trial, folder, held, written, device, should_stop, report, command)


def mark_failed(trial: Trial, results: Path, reason: str) -> Outcome:
    """Writes into a trial's folder that it failed, for a worker process that could not do so itself.

    Returns:
        The outcome that stands in the folder; another's, when the trial was finished or is held by another.
    """
    folder = TrialFolder(results.absolute() / "trials" / trial.identity)
    if folder.result(trial.evaluation) is None and (held := lease.acquire(folder.path)) is not None:
        with held, Journal(folder.journal_path) as written:
            written.status(State.FAILED, reason=reason, host=socket.gethostname(), pid=os.getpid())
    return Outcome(*folder.state(trial.evaluation))


def _recorded(
    trial: Trial,
    folder: TrialFolder,
    held: Lease,
    written: Journal,
    device: str,
    should_stop: Callable[[], bool],
    report: Callable[[EpochReport], None],
    command: str,
) -> Outcome:
    """Runs a trial that this process holds, between its first and its last status record."""
    device = provenance.resolve_device(device)
    folder.write_trial({**trial.to_dict(), "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
    source = provenance.find_source()
    if not folder.trained():  # what evaluates later has not made the weights
        source.write_patch(folder.path / "source.patch")
    training = trial.config.training
    facts = provenance.environment(device, training.threads, training.precision, command=command, source=source)
    written.append({"kind": "environment", "timestamp": journal.milliseconds(), **facts})
    written.status(State.RUNNING, reason=None, host=socket.gethostname(), pid=os.getpid())

    def stop_asked() -> bool:
        held.check()
        return should_stop()

    def epoch_done(epoch: EpochReport) -> None:
        held.check()
        written.epoch(epoch.epoch, {k: v for k, v in epoch.metrics().items() if math.isfinite(v)})
        report(epoch)

    try:
        if not folder.trained():
            _train(trial, folder, device, stop_asked, epoch_done)
        failpoints.reach("sweeps.worker.trained")
        _evaluate(trial, folder, device, held)
        outcome = Outcome(State.FINISHED)
    except LeaseLostError as lost:
        return Outcome(State.LOST, str(lost))  # and not one byte more
    except Interrupted:
        outcome = Outcome(State.STOPPED, "interrupted; goes on from its checkpoint")
    except Diverged as error:
        outcome = Outcome(State.DIVERGED, str(error))
    except InputError as error:
        outcome = Outcome(State.FAILED, error.line)
    except Exception as error:  # the border of a trial: whatever went wrong is its outcome, and others go on
        (folder.path / "traceback.txt").write_text(traceback.format_exc())
        outcome = Outcome(State.FAILED, " ".join(f"{type(error).__name__}: {error}".split()))
    written.status(outcome.state, reason=outcome.reason, host=socket.gethostname(), pid=os.getpid())
    return outcome


def _train(
    trial: Trial,
    folder: TrialFolder,
    device: str,
    stop_asked: Callable[[], bool],
    epoch_done: Callable[[EpochReport], None],
) -> None:
    store = open_store(trial.store)
    train(
        trial.config,
        videos_of(store, trial.split, "train"),
        vocabulary_of(store),
        folder=folder.run_path,
        device=device,
        report=epoch_done,
        should_stop=stop_asked,
    )


def _evaluate(trial: Trial, folder: TrialFolder, device: str, held: Lease) -> None:
    store = open_store(trial.store)
    trained = checkpoint.load(folder.run_path / "checkpoint")
    started = time.perf_counter()
    evaluation = evaluate(
        trained,
        videos_of(store, trial.split, trial.part),
        device=device,
        predictions=PREDICTIONS,
        decoding=trial.config.decoding,
        training_videos=videos_of(store, trial.split, "train"),
        fps=store.manifest.fps,
        task=trial.task,
        threads=trial.config.training.threads,
    )
    seconds = time.perf_counter() - started
    held.check()
    _write_predictions(evaluation, store.manifest.vocabulary, folder.evaluation_path(trial.evaluation) / "predictions")
    failpoints.reach("sweeps.worker.evaluated")
    folder.write_result(
        trial.evaluation,
        {
            **evaluation.to_dict(),
            "choices": trial.decoding_choices,
            "weights_sha256": checkpoint.weights_sha256(trained.model),
            "train_seconds": trained.progress.seconds,
            "evaluate_seconds": seconds,
        },
    )


def _write_predictions(evaluation: Evaluation, actions: tuple[str, ...], folder: Path) -> None:
    """One file for each prediction: video -> names of its segments and their lengths in frames."""
    folder.mkdir(parents=True, exist_ok=True)
    for prediction, segmentations in evaluation.segmentations.items():
        write_json(
            folder / f"{prediction}.json",
            {
                "format_version": 1,
                "prediction": prediction,
                "videos": {
                    video: {
                        "transcript": [actions[action] for action in segmentation.transcript.tolist()],
                        "lengths": segmentation.lengths.tolist(),
                    }
                    for video, segmentation in segmentations.items()
                },
            },
        )

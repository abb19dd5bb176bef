"""Runs one trial in the current process: trains, evaluates, and writes both into the trial's directory.

Knows neither Ray nor MLflow, so that a trial runs the same inside a sweep and by itself.
"""

from __future__ import annotations

import math
import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

import mucon
from mucon.checkpoint_files import WEIGHTS, writer_of
from mucon.device import choose_device, usable_precision
from mucon.errors import Diverged, InputError, Interrupted, Problem
from mucon.evaluation import Evaluation, evaluate
from mucon.inference.background_shares import background_shares
from mucon.method import Predictor
from mucon.methods import method_named
from mucon.training_config import CHECKPOINT_SECONDS
from mucon.videos import Video, source_of, training_videos_of, videos_of, vocabulary_of
from storage import Store, failpoints, open_store
from storage.fencing import SupersededError
from storage.held_out import held_out
from sweeps.service.plan.recordings import split_facts
from sweeps.service.run.budget.usage import Account
from sweeps.service.run.reasons import reason_of
from sweeps.service.text import printable, redacted
from sweeps.service.triage.causes import Cause, cause_of
from sweeps.service.triage.failures import Failure
from sweeps.service.triage.output import kept_output
from sweeps.service.trials import journal, lease, provenance
from sweeps.service.trials.continuing import take_up
from sweeps.service.trials.folder import HINT, State, TrialFolder
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.json_files import damaged, set_aside
from sweeps.service.trials.lease import Lease
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial

if TYPE_CHECKING:
    from mucon.training import EpochReport

NO_SLOT = nullcontext()
"""The slot of a trial that need not wait for other processes of its machine."""
INTERRUPTED = "interrupted"
"""Why a trial stops that a person asked to stop."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended, why if it did not finish, and what could let it succeed."""

    state: State
    reason: str | None = None
    cause: Cause | None = None


def run_trial(
    trial: Trial,
    results: ResultsFolder,
    *,
    device: str = "auto",
    should_stop: Callable[[], bool] = lambda: False,
    report: Callable[[EpochReport], None] = lambda _: None,
    lease_duration: float = lease.LEASE_SECONDS,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    command: str = "",
    keep_output: bool = False,
    failed: Callable[[Exception], None] = lambda _: None,
    stop_reason: Callable[[], str] = lambda: INTERRUPTED,
    account: Account | None = None,
    slot: AbstractContextManager[object] = NO_SLOT,
) -> Outcome:
    """Does what is missing of a trial's training and evaluation; waits while another process holds the trial.

    Args:
        trial: the trial.
        results: the results folder.
        device: `auto`, `cpu` or `cuda`.
        should_stop: called before every step; true writes a checkpoint and stops the trial.
        report: called after each epoch that is trained here.
        lease_duration: seconds after which a trial is taken over from a process that does not renew its lease.
        checkpoint_seconds: seconds between two checkpoints, see `Method.train`.
        command: command line to record; default: that of this process.
        keep_output: write what this process prints to the trial's log, rather than to its standard output and error.
        failed: receives the error that ended the trial, after it is recorded.
        stop_reason: why `should_stop` returned true.
        account: where the trial records what it uses; None if nobody asks.
        slot: entered to train and evaluate; it may wait, and raise Interrupted.

    Returns:
        The outcome, which is also recorded in the trial's directory; a failure is an outcome, not an exception.

    Raises:
        OSError: the results folder cannot be written, see `causes`; also another type that stands for it.
        InputError: the directory is of an unknown format version, or cannot be converted.
    """
    path = results.trial(trial.identity).path
    held = lease.acquire_when_free(path, duration=lease_duration, give_up=should_stop)
    if held is None:
        return Outcome(State.STOPPED, "stopped while another process trained it")
    try:
        with held:
            folder = TrialFolder(path, held.writer(after=writer_of(TrialFolder(path).checkpoint_path)))
            folder.mend(trial.evaluation)
            folder.upgrade()
            with Journal(folder.journal_path, folder.writer) as written:
                result = TrialReading(folder).result(trial.evaluation)
                if result is not None:
                    folder.write_trial({**trial.to_dict(), "created": _now()})  # both exist unless they were damaged
                    if not folder.training_path.exists():
                        folder.write_training(**{name: result[name] for name in ("weights_sha256", "train_seconds")})
                    return Outcome(State.FINISHED)
                if not should_stop():
                    device = provenance.resolve_device(device)
                    hooks = (should_stop, report, failed, stop_reason, account, slot)
                    attempt = _Attempt(trial, folder, held, written, device, *hooks, checkpoint_seconds)
                    with kept_output(folder, results.output(trial.identity)) if keep_output else nullcontext():
                        return attempt.run(command)
    except SupersededError as lost:
        return Outcome(State.LOST, str(lost))  # nothing more is written
    return Outcome(*TrialReading(results.trial(trial.identity)).state(trial.evaluation))  # stopped before it began


def _record_state(written: Journal, trial: Trial, state: State, reason: str | None, **more: object) -> None:
    host, pid, evaluation = socket.gethostname(), os.getpid(), trial.evaluation
    written.status(state, reason=reason, host=host, pid=pid, evaluation=evaluation, **more)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One run of a trial that this process holds."""

    trial: Trial
    folder: TrialFolder
    held: Lease
    journal: Journal
    device: str
    should_stop: Callable[[], bool]
    report: Callable[[EpochReport], None]
    failed: Callable[[Exception], None]
    stop_reason: Callable[[], str]
    account: Account | None
    slot: AbstractContextManager[object]
    checkpoint_seconds: float

    def run(self, command: str) -> Outcome:
        """Trains and evaluates what is missing, and records start and end.

        Raises:
            SupersededError: another process has taken over the trial.
        """
        cause: Exception | None = None
        more: dict[str, object] = {}
        try:
            self.folder.writer.confirm_for(self.folder.traceback_path)
            self.folder.traceback_path.unlink(missing_ok=True)
            metered = self.account.metered(self.trial.identity, self.held.confirm) if self.account else nullcontext()
            with self.slot, metered:
                self._train_and_evaluate(command)
            outcome = Outcome(State.FINISHED)
        except SupersededError:
            raise
        except Interrupted:
            outcome = Outcome(State.STOPPED, f"{self.stop_reason()}; resumes from its checkpoint")
        except Diverged as error:
            outcome, cause = Outcome(State.DIVERGED, str(error)), error
        except Exception as error:  # every failure becomes the trial's outcome, so that other trials continue
            outcome, cause = self._failure(error), error
            is_final = outcome.cause is None and not isinstance(error, InputError)
            more = {"code": provenance.code()} if is_final else {}
        reason = outcome.reason and printable(redacted(outcome.reason))
        more |= {} if cause is None else {"failure": Failure.of(cause).to_dict()}
        _record_state(self.journal, self.trial, outcome.state, reason, **more)
        if cause is not None:
            self.failed(cause)
        return Outcome(outcome.state, reason, outcome.cause)

    def _failure(self, error: Exception) -> Outcome:
        """The outcome of an error; raises it if no other trial could write its results either."""
        cause = cause_of(error, self.folder.path)
        if cause is Cause.STORAGE:
            raise error
        if isinstance(error, InputError):
            return Outcome(State.FAILED, error.line)
        text = printable(redacted(traceback.format_exc()))
        self.folder.writer.write(self.folder.traceback_path, text.encode())
        return Outcome(State.FAILED, f"{'out of memory: ' if cause is Cause.MEMORY else ''}{reason_of(error)}", cause)

    def _train_and_evaluate(self, command: str) -> None:
        try:
            store = open_store(self.trial.store, may_be_old=True)
            facts: dict[str, Any] = {"dim": store.manifest.dim, "dtype": store.manifest.dtype}
            if self.trial.part == "validation":
                facts["validation"] = held_out(store, self.trial.split).validation
        except Exception:
            self._record_start(command, {})
            raise
        self._record_start(command, {"data": facts})
        self._check_data(store)
        failpoints.reach(f"sweeps.worker.begun.{self.trial.identity}")
        try:
            self._do_the_rest(store)
        except InputError as error:
            if not any(p.rule in ("damaged", "missing") and self._is_of_checkpoint(p.place) for p in error.problems):
                raise
            for path in (self.folder.run_path, self.folder.training_path):
                if path.exists():
                    set_aside(path, self.folder.writer)
            self._do_the_rest(store)

    def _is_of_checkpoint(self, place: str) -> bool:
        return place.startswith(str(self.folder.checkpoint_path))

    def _do_the_rest(self, store: Store) -> None:
        if (training := TrialReading(self.folder).training) is not None:
            predictor = method_named(self.trial.method).load(self.folder.checkpoint_path)
            weights = predictor.weights_sha256()
            if weights != training["weights_sha256"]:
                raise damaged(self.folder.checkpoint_path / WEIGHTS, f"weights with the sha256 {weights}", HINT)
        else:
            self._check_precision()
            predictor, weights = self._train(store)
            store = open_store(self.trial.store, may_be_old=True)
            self._check_data(store)
        failpoints.reach("sweeps.worker.trained")
        self._evaluate(store, predictor, weights)

    def _record_start(self, command: str, facts_of_data: Mapping[str, Any]) -> None:
        self.folder.write_trial({**self.trial.to_dict(), **facts_of_data, "created": _now()})
        source = provenance.own_source()
        if not TrialReading(self.folder).is_trained:  # the patch belongs to the process that trained the weights
            source.write_patch(self.folder.patch_path, self.folder.writer)
        training = self.trial.training
        facts = provenance.environment(
            self.device, training.threads, training.precision, command=command, source=source
        )
        self.journal.append({"kind": "environment", "timestamp": journal.milliseconds(), **facts})
        _record_state(self.journal, self.trial, State.RUNNING, None)

    def _check_data(self, store: Store) -> None:
        """Raises an error if the store was replaced since the trial was planned."""
        trial = self.trial
        facts = split_facts(store, trial.split, trial.part)
        fingerprint = facts.fingerprint(trial.training.labelled, trial.config.seed)
        if fingerprint != trial.data_fingerprint:
            raise InputError(
                Problem(
                    rule="mismatch",
                    place=trial.store,
                    value=fingerprint,
                    expected=f"recordings with the fingerprint {trial.data_fingerprint}",
                    hint="since the sweep was planned, the store was replaced or the program updated; run it again",
                )
            )

    def _check_precision(self) -> None:
        """Raises an error if this device cannot train in the precision of the trial's identity."""
        asked = self.trial.training.precision
        if usable_precision(asked, choose_device(self.device)) != asked:
            message = f"{self.device} of {socket.gethostname()} has no {asked} instructions"
            raise InputError(Problem(rule="unsupported", place="training.precision", value=asked, message=message))

    def _train(self, store: Store) -> tuple[Predictor, str]:
        """Trains, and returns the predictor and the digest of its weights."""
        method = method_named(self.trial.method)
        take_up(self.trial, self.folder, self.journal)
        method.train(
            self.trial.config,
            training_videos_of(store, self.trial.split, self.trial.part),
            vocabulary_of(store),
            folder=self.folder.run_path,
            device=self.device,
            report=self._epoch_done,
            should_stop=self._stop_asked,
            source=source_of(store, self.trial.split),
            checkpoint_seconds=self.checkpoint_seconds,
            writer=replace(self.folder.writer, settle=self.journal.sync),  # its epochs have their records
        )
        predictor = method.load(self.folder.checkpoint_path)
        weights = predictor.weights_sha256()
        self.folder.write_training(weights_sha256=weights, train_seconds=predictor.progress.seconds)
        if (shares := background_shares(self.folder.run_path)) is not None:
            record = {"kind": "background", "timestamp": journal.milliseconds(), **asdict(shares), "text": str(shares)}
            gap = shares.problem()
            self.journal.append(record if gap is None else {**record, "warning": gap.message})
        return predictor, weights

    def _stop_asked(self) -> bool:
        self.held.check()
        return self.should_stop()

    def _epoch_done(self, epoch: EpochReport) -> None:
        metrics = {**epoch.metrics(), **(self.account.system() if self.account else {})}
        self.journal.epoch(epoch.epoch, {k: v for k, v in metrics.items() if math.isfinite(v)})
        self.report(epoch)

    def _evaluate(self, store: Store, predictor: Predictor, weights: str) -> None:
        trial = self.trial
        decoding = method_named(trial.method).decoding(trial.config)
        needs_facts = decoding is not None and decoding.needs_training_facts
        started = time.perf_counter()
        evaluation = evaluate(
            predictor,
            [self._stoppable(video) for video in videos_of(store, trial.split, trial.part)],
            device=self.device,
            decoding=decoding,
            training_videos=training_videos_of(store, trial.split, trial.part) if needs_facts else (),
            fps=store.manifest.fps,
            task=trial.task,
            threads=trial.training.threads,
        )
        seconds = time.perf_counter() - started
        self._write_predictions(evaluation, store.manifest.vocabulary)
        failpoints.reach("sweeps.worker.evaluated")
        self.folder.write_result(
            trial.evaluation,
            {
                **evaluation.to_dict(),
                "choices": trial.decoding_choices,
                "evaluation_version": mucon.EVALUATION,
                "weights_sha256": weights,
                "train_seconds": predictor.progress.seconds,
                "evaluate_seconds": seconds,
            },
        )

    def _stoppable(self, video: Video) -> Video:
        """A recording whose reading ends the evaluation once the trial is asked to stop."""

        def read() -> NDArray[Any]:
            if self._stop_asked():
                raise Interrupted("stopped during the evaluation, which begins again")
            return video.read()

        return replace(video, read=read)

    def _write_predictions(self, evaluation: Evaluation, actions: tuple[str, ...]) -> None:
        """Writes one file per prediction: video -> action names and lengths in frames of its segments."""
        for prediction, segmentations in evaluation.segmentations.items():
            videos = {
                video: {
                    "transcript": [actions[action] for action in segmentation.transcript.tolist()],
                    "lengths": segmentation.lengths.tolist(),
                }
                for video, segmentation in segmentations.items()
            }
            self.folder.write_predictions(self.trial.evaluation, prediction, videos)

"""Predicts many recordings, several at a time, and reports what is wrong with one instead of stopping."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Condition

import torch

from mucon.decoding.batches import Job, decode_many
from mucon.decoding.config import DecodingConfig
from mucon.device import cpu_threads, full_precision, usable_cpus
from mucon.errors import InputError, Problem, check_ranges
from mucon.identity.contract import Contract
from mucon.inference.requests import transcript_problems
from mucon.method import Predictor, training_of
from mucon.outputs.results import Segments
from mucon.videos import Video

JOBS_ON_A_GPU = 4
"""Recordings at a time on a GPU: one computes there while others are read and decoded."""
FRAMES_AT_A_TIME = 50_000
"""Frames of the recordings that are computed at a time, unless the number of recordings is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is predicted of each recording.

    Attributes:
        prediction: name of the prediction.
        transcript: ids of the known actions, for alignment; None for segmentation.
        decoding: choices of decoding; None for those of the model.
        alternatives: most alternatives.
        fps: frames per second of the recordings; None if unknown.
    """

    prediction: str
    transcript: tuple[int, ...] | None = None
    decoding: DecodingConfig | None = None
    alternatives: int = 0
    fps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What has become of a recording.

    Attributes:
        name: name of the recording.
        segments: the prediction; None if there is none.
        problems: why there is none.
        doubts: what is suspicious about its features; the prediction may be wrong.
        checksum: digest of its features, if requested.
    """

    name: str
    segments: Segments | None = None
    problems: tuple[Problem, ...] = ()
    doubts: tuple[Problem, ...] = ()
    checksum: str = ""


@dataclass(slots=True)
class FrameBudget:
    """Lets threads compute as long as their recordings have few frames together; a longer recording is alone.

    Attributes:
        most: frames at a time; None for any number.
        used: frames that are being computed.
    """

    most: int | None
    used: int = 0
    _changed: Condition = field(default_factory=Condition)

    @contextmanager
    def of(self, n_frames: int) -> Iterator[None]:
        """Waits until a recording fits beside the others, and counts its frames until the block ends."""
        with self._changed:
            self._changed.wait_for(lambda: self.most is None or not self.used or self.used + n_frames <= self.most)
            self.used += n_frames
        try:
            yield
        finally:
            with self._changed:
                self.used -= n_frames
                self._changed.notify_all()


def predicted(
    predictor: Predictor, contract: Contract, video: Video, request: Request
) -> tuple[Segments, list[Problem]]:
    """The prediction for a recording, and doubts about its features.

    Raises:
        InputError: features that break the contract, a transcript that does not fit, or a prediction that is undefined
            for the recording.
    """
    doubts = contract.check_video(video)
    features, names = video.features(predictor.device), (request.prediction,)
    if request.transcript is None:
        found = predictor.begin(
            features, predictions=names, decoding=request.decoding, alternatives=request.alternatives
        )()
    else:
        problems = transcript_problems(request.transcript, video.n_frames, predictor.vocabulary)
        if problems:
            raise InputError(problems)
        found = predictor.align(features, request.transcript, predictions=names, decoding=request.decoding)
    return Segments.of(found, request.prediction, predictor.vocabulary, video.n_frames, request.fps), doubts


def predict_all(
    predictor: Predictor,
    contract: Contract,
    recordings: Iterable[tuple[str, str, Callable[[], Video]]],
    request: Request,
    *,
    jobs: int | None = None,
    checksums: bool = False,
) -> Generator[Outcome, None, None]:
    """Yields the outcome of each recording, in their order.

    Every recording is computed with the number of threads of the training, so that the result does not depend on
    `jobs`. Recordings are read when it is their turn; at most `2 · jobs` outcomes wait to be fetched.

    Args:
        predictor: a trained model.
        contract: its feature contract.
        recordings: name, place in problems, and a function that reads it, which may raise `InputError`.
        request: what is predicted.
        jobs: recordings at a time; by default as many as the cores of this process allow, on a GPU 4, and of at most
            `FRAMES_AT_A_TIME` frames together, so that many long recordings need the memory of one.
        checksums: compute the digests of the features.

    Raises:
        InputError: fewer than 1 job.
    """
    check_ranges("", [("jobs", jobs, "at least 1", jobs is None or jobs >= 1)])
    threads = training_of(predictor.config).threads
    budget = FrameBudget(FRAMES_AT_A_TIME if jobs is None else None)
    if jobs is None:
        jobs = max(usable_cpus() // threads, 1) if predictor.device.type == "cpu" else JOBS_ON_A_GPU

    def outcome(name: str, place: str, load: Callable[[], Video]) -> Outcome:
        try:
            video = load()
            with budget.of(video.n_frames):
                segments, doubts = predicted(predictor, contract, video, request)
            checksum = checksum_of(video) if checksums else ""
        except InputError as error:
            problems = tuple(one if one.place.startswith(place) else one.under(place) for one in error.problems)
            return Outcome(name=name, problems=problems)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            message, hint = f"out of memory ({' '.join(str(error).split())[:200]})", "--jobs 1 needs less memory"
            return Outcome(name=name, problems=(Problem(rule="unsupported", place=place, message=message, hint=hint),))
        return Outcome(name=name, segments=segments, doubts=tuple(doubts), checksum=checksum)

    with full_precision(), cpu_threads(threads):
        yield from decode_many(
            (Job(name, partial(outcome, name, place, load)) for name, place, load in recordings),
            threads=jobs,
            bunch=1,
        )


def checksum_of(video: Video) -> str:
    """Digest of the features of a recording and of their shape; empty if it is not known."""
    return "" if video.checksum is None else f"{video.checksum()} {video.n_frames}x{video.dim}"


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)

"""A few real training steps, timed: what an estimate starts from."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from mucon.config import TrainConfig
from mucon.device import peak_memory
from mucon.errors import DataWarning, Diverged, Interrupted
from mucon.training import train
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

STEPS = (4, 40)
"""Least and most timed steps; the first one pays for what later ones find ready, and is left out."""
LEAST_SECONDS = 0.3
"""Seconds after which that least number of steps is enough."""
MOST_NUMBERS = 10_000_000
"""Features of a recording that is measured; of a longer one the first frames are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A training step on a recording.

    Attributes:
        seconds: of a step by the clock, the median.
        processor_seconds: the same of the processor's time, for each of the threads, a mean; more by the clock means
            that other programs were in the way.
        n_steps: that were timed.
        n_frames: T of the recording.
        working_bytes: of memory that a step needs besides the program and the features.
        program_bytes: of memory before the first step.
    """

    seconds: float
    processor_seconds: float
    n_steps: int
    n_frames: int
    working_bytes: int
    program_bytes: int


def step_shape(config: TrainConfig) -> tuple[object, ...]:
    """What of a configuration decides how long a step takes: networks, mutual consistency, labels, arithmetic."""
    training = config.training
    return (
        config.backbone,
        config.segment_branch,
        config.loss.mutual_consistency > 0,
        training.optimiser,
        training.labelled > 0,
        training.teacher_forcing < 1,
        training.precision,
        training.threads,
    )


def typical(videos: Sequence[Video], dim: int) -> Video:
    """The recording of median length, its first frames where it is longer than what is measured."""
    ordered = sorted(videos, key=lambda video: (video.n_frames, video.id))
    return shortened(ordered[(len(ordered) - 1) // 2], max(MOST_NUMBERS // dim, 1))


def shortened(video: Video, at_most: int) -> Video:
    """A recording's first frames, with the segments that begin in them.

    >>> from mucon.videos import Video
    >>> short = shortened(Video.from_arrays("v", [[0.0]] * 10, (3, 1, 2), (4, 3, 3)), 6)
    >>> short.n_frames, short.transcript, short.lengths, len(short.read())
    (6, (3, 1), (4, 2), 6)
    """
    if video.n_frames <= at_most:
        return video
    if video.lengths is None:
        n_segments = max(round(len(video.transcript) * at_most / video.n_frames), 1)
        transcript, lengths = video.transcript[:n_segments], None
    else:
        left, kept = at_most, []
        for length in video.lengths:
            kept.append(min(length, left))
            left -= kept[-1]
            if not left:
                break
        transcript, lengths = video.transcript[: len(kept)], tuple(kept)
    return replace(video, n_frames=at_most, transcript=transcript, lengths=lengths, read=lambda: video.read()[:at_most])


def measure_step(
    config: TrainConfig, video: Video, vocabulary: Vocabulary, *, device: str, seconds: float
) -> MeasuredStep:
    """Trains a few steps of a configuration on copies of a recording, in a temporary folder and never compiled.

    Args:
        config: what would be trained.
        video: with a transcript, and with lengths where the configuration shows them.
        vocabulary: the actions.
        device: where.
        seconds: after which no further step is begun, once two are done; short steps are repeated for part of it.

    Raises:
        InputError: it cannot be trained like this.
    """
    labelled = 1.0 if config.training.labelled and video.lengths is not None else 0.0
    quick = config.with_values(
        {
            "training.epochs": 1,
            "training.accumulate": 1,
            "training.warm_start": None,
            "training.compile": False,
            "training.progress_videos": 0,
            "training.labelled": labelled,
        }
    )
    least, most = STEPS
    n_copies = 1 + min(max(4 * MOST_NUMBERS // (video.n_frames * video.dim), least), most)
    copies = [replace(video, id=f"{video.id} {i}") for i in range(n_copies)]
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.empty(1, device=device)  # starts CUDA, which has no peak before
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else _memory()
    looks: list[float] = []
    spent_before = time.process_time()

    def enough() -> bool:
        if on_gpu:
            torch.cuda.synchronize()
        looks.append(time.perf_counter())
        n_steps, spent = len(looks) - 1, looks[-1] - looks[0]
        return (
            n_steps == n_copies - 1
            or (n_steps >= least and spent > min(seconds, LEAST_SECONDS))
            or (n_steps >= 2 and spent > seconds)
        )

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with contextlib.suppress(Interrupted, Diverged):
            train(quick, copies, vocabulary, folder=Path(folder), device=device, should_stop=enough)
    times = [after - start for start, after in itertools.pairwise(looks)]
    processor = (time.process_time() - spent_before) / max(len(times), 1) / config.training.threads
    features = sum(copy.n_frames for copy in copies) * video.dim * 4
    peak = torch.cuda.max_memory_allocated() if on_gpu else peak_memory()
    return MeasuredStep(
        seconds=median(times[1:] or times),
        processor_seconds=processor,
        n_steps=len(times),
        n_frames=video.n_frames,
        working_bytes=max(peak - before - features, 0),
        program_bytes=before,
    )


def _memory() -> int:
    """Bytes that this process holds now; the most so far where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if told.exists() else peak_memory()

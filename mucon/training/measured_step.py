"""Times a few real training steps and measures their memory."""

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
from typing import Any

import numpy as np
import torch

from mucon.baselines import equal_lengths
from mucon.configuration import Config
from mucon.device import choose_device, peak_memory
from mucon.errors import DataWarning, Diverged, Interrupted
from mucon.method import Method, models_of, training_of
from mucon.training.feed import RESIDENT_BYTES
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

MIN_STEPS = 4
MAX_STEPS = 40
"""Number of timed steps; the first one includes one-time costs and does not count, see also `Method.short_steps`."""
MIN_SECONDS = 0.3
"""Seconds after which `MIN_STEPS` steps are enough."""
MAX_FEATURE_VALUES = 10_000_000
"""Feature values (frames times dimension) of the measured recording; a longer one is cut to its first frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A training step on a recording.

    Attributes:
        seconds: median wall-clock time of a step.
        quartiles: a quarter of the steps took at most the first time, a quarter at least the second one, in seconds.
        processor_seconds: mean CPU time of a step per thread; much less than the wall-clock time if other programs
            use the cores.
        n_steps: number of timed steps.
        n_frames: T of the recording.
        working_bytes: memory of a step besides the program and the features.
        program_bytes: memory before the first step.
    """

    seconds: float
    quartiles: tuple[float, float]
    processor_seconds: float
    n_steps: int
    n_frames: int
    working_bytes: int
    program_bytes: int


def typical(videos: Sequence[Video], dim: int) -> Video:
    """The recording of median length, shortened to at most `MAX_FEATURE_VALUES`."""
    ordered = sorted(videos, key=lambda video: (video.n_frames, video.id))
    return shortened(ordered[(len(ordered) - 1) // 2], max(MAX_FEATURE_VALUES // dim, 1))


def shortened(video: Video, at_most: int) -> Video:
    """The first frames of a recording, with the segments that begin in them.

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
        remaining, shortened_lengths = at_most, []
        for length in video.lengths:
            shortened_lengths.append(min(length, remaining))
            remaining -= shortened_lengths[-1]
            if not remaining:
                break
        transcript, lengths = video.transcript[: len(shortened_lengths)], tuple(shortened_lengths)
    return replace(
        video,
        n_frames=at_most,
        transcript=transcript,
        lengths=lengths,
        read=lambda: video.read()[:at_most],
        checksum=None,
    )


def measure_step(
    method: Method[Any], config: Config, video: Video, vocabulary: Vocabulary, *, device: str, seconds: float
) -> MeasuredStep:
    """Trains a few steps of a configuration on copies of a recording, uncompiled and in a temporary folder.

    Args:
        method: the trained method.
        config: its configuration.
        video: a recording with a transcript, and with lengths if the configuration uses frame labels.
        vocabulary: the actions.
        device: `cpu` or `cuda`.
        seconds: time limit, checked after at least two steps; short steps end earlier, see `MIN_SECONDS`.

    Raises:
        InputError: the configuration cannot be trained.
    """
    training = training_of(config)
    quick = method.quick(config, labelled=training.labelled > 0 and video.lengths is not None)
    untimed = 1 + method.short_steps(quick)
    n_copies = min(max(1 + 4 * MAX_FEATURE_VALUES // (video.n_frames * video.dim), 1 + MIN_STEPS), MAX_STEPS + untimed)
    untimed = min(untimed, n_copies - MIN_STEPS)
    if "training.labels_from" in models_of(config) and video.lengths is None:  # any labels take equally long
        video = replace(video, lengths=tuple(equal_lengths(video.transcript, video.n_frames).lengths.tolist()))
    copies = [replace(video, id=f"{video.id} {i}") for i in range(n_copies)]
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.empty(1, device=choose_device(device))  # initialises CUDA, which has no peak before
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else _memory()
    clock: list[float] = []
    processor: list[float] = []

    def enough() -> bool:
        if on_gpu:
            torch.cuda.synchronize()
        clock.append(time.perf_counter())
        processor.append(time.process_time())
        n_steps, spent = len(clock) - 1, clock[-1] - clock[0]
        return (
            n_steps == n_copies - 1
            or (n_steps >= MIN_STEPS + untimed - 1 and spent > min(seconds, MIN_SECONDS))
            or (n_steps >= 2 and spent > seconds)
        )

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with contextlib.suppress(Interrupted, Diverged):
            method.train(quick, copies, vocabulary, folder=Path(folder), device=device, should_stop=enough)
    first = max(min(untimed, len(clock) - 2), 0)
    times = [after - start for start, after in itertools.pairwise(clock[first:])]
    busy = (processor[-1] - processor[first]) / max(len(times), 1) / training.threads
    features = sum(copy.n_frames for copy in copies) * video.dim * 4
    peak = torch.cuda.max_memory_allocated() if on_gpu else peak_memory()
    quick, usual, slow = np.quantile(times, (0.25, 0.5, 0.75)).tolist()
    return MeasuredStep(
        seconds=usual,
        quartiles=(quick, slow),
        processor_seconds=busy,
        n_steps=len(clock) - 1,
        n_frames=video.n_frames,
        working_bytes=max(peak - before - features, 0),
        program_bytes=before,
    )


def memory_of(step: MeasuredStep, train: Sequence[Video], test: Sequence[Video]) -> int:
    """Bytes of the program, the features in memory, and a step on the longest recording."""
    longest = max(video.n_frames for video in (*train, *test))
    features = sum(video.n_frames for video in train) * train[0].dim * 4
    resident = features if features <= RESIDENT_BYTES else longest * train[0].dim * 4
    return step.program_bytes + resident + round(step.working_bytes * longest / step.n_frames)


def _memory() -> int:
    """Bytes of memory that this process uses; the peak so far on systems without /proc."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else peak_memory()

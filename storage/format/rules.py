"""Validation of the content of a store; each function returns the problems it finds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from storage.constants import DTYPES, MAX_CLIP_BYTES
from storage.errors import Problem, counted, nearest, some
from storage.names import JOINERS

_PART = re.compile(r"[^:\s]+:[^:\s]+")
_TEXT = "printable text without leading or trailing blanks"


def header_problems(
    dim: int,
    dtype: str,
    vocabulary: Sequence[str],
    background: Sequence[str],
    times: Mapping[str, float | None],
    metadata: Mapping[str, Any],
) -> list[Problem]:
    """Checks the properties of a whole store."""
    problems = []
    if dim < 1:
        problems.append(Problem(rule="range", place="dim", value=dim, expected="at least 1"))
    if dtype not in DTYPES:
        problems.append(Problem(rule="unknown", place="dtype", value=dtype, expected=f"one of {', '.join(DTYPES)}"))
    problems += vocabulary_problems(vocabulary, background)
    for name, value in times.items():
        positive = name in ("fps", "window", "stride")
        if value is not None and (not math.isfinite(value) or (positive and value <= 0)):
            kind = "a positive number" if positive else "a finite number"
            problems.append(Problem(rule="range", place=name, value=value, expected=f"{kind} or None"))
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        problems.append(Problem(rule="type", place="metadata", message=f"not representable in JSON ({error})"))
    return problems


def vocabulary_problems(vocabulary: Sequence[str], background: Sequence[str]) -> list[Problem]:
    """Checks that action names are valid and distinct, and that background names are distinct actions."""
    problems = []
    if not vocabulary:
        problems.append(Problem(rule="missing", place="vocabulary", expected="at least one action"))
    for index, name in enumerate(vocabulary):
        if not _is_text(name):
            problems.append(Problem(rule="range", place=f"vocabulary, id {index}", value=name, expected=_TEXT))
    problems += [
        Problem(rule="duplicate", place="vocabulary", value=name, message=f"duplicate action {name!r}")
        for name in _repeated(vocabulary)
    ]
    problems += [
        Problem(
            rule="unknown",
            place="background",
            value=name,
            message=f"unknown action {name!r}{nearest(name, vocabulary)}",
            hint=f"the actions are {some(vocabulary, 10)}",
        )
        for name in background
        if name not in vocabulary
    ]
    problems += [
        Problem(rule="duplicate", place="background", value=name, message=f"duplicate action {name!r}")
        for name in _repeated(background)
    ]
    return problems


def _is_text(name: str) -> bool:
    seen = name.translate(dict.fromkeys(map(ord, JOINERS)))
    return bool(seen) and seen == seen.strip() and seen.isprintable()


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if list(names).count(name) > 1})


def id_problems(video: str, splits: Sequence[str]) -> list[Problem]:
    """Checks the name of a clip and its split parts."""
    problems = []
    if not _is_text(video):
        problems.append(Problem(rule="range", place="id", value=video, expected=_TEXT))
    problems += [
        Problem(rule="range", place=video, value=part, expected="a split part SPLIT:PART such as 1:train")
        for part in splits
        if not _PART.fullmatch(part)
    ]
    problems += [
        Problem(rule="conflict", place=video, value=name, message=f"belongs to several parts of split {name!r}")
        for name in _repeated([part.split(":")[0] for part in splits])
    ]
    return problems


def shape_problems(
    video: str, shape: tuple[int, ...], features_dtype: np.dtype[Any], dim: int, dtype: str
) -> list[Problem]:
    """Checks that features are `[T dim]` real numbers and fit into one page.

    Args:
        video: name of the clip in the problems.
        shape: shape of its features.
        features_dtype: dtype of its features.
        dim: D of the store.
        dtype: dtype of the store.
    """
    if features_dtype.kind not in "fiub" or features_dtype.itemsize > 8:
        expected = "features of real numbers of at most 64 bits"
        return [Problem(rule="type", place=video, value=features_dtype.name, expected=expected)]
    if len(shape) != 2:
        return [Problem(rule="shape", place=video, value=list(shape), expected="features of shape [T, D]")]
    frames, values = shape
    if values != dim:
        hint = "they look transposed" if frames == dim else ""
        expected = f"features of shape [T, {dim}]"
        return [Problem(rule="shape", place=video, value=list(shape), expected=expected, hint=hint)]
    if not frames:
        return [Problem(rule="shape", place=video, value=list(shape), expected="at least one frame")]
    size = frames * dim * np.dtype(dtype).itemsize
    if size > MAX_CLIP_BYTES:
        return [
            Problem(
                rule="range",
                place=video,
                value=size,
                message=f"{frames} frames of {dim} {dtype} values take {size} bytes, at most {MAX_CLIP_BYTES} are "
                "possible",
                hint="split the video or choose a narrower dtype",
            )
        ]
    return []


def annotation_problems(
    video: str, frames: int, transcript: Sequence[int] | None, lengths: Sequence[int] | None, n_actions: int
) -> list[Problem]:
    """Checks that transcript, lengths, number of frames and vocabulary agree.

    An action may follow itself: two repetitions are two segments.
    """
    if transcript is None:
        if lengths is None:
            return []
        return [Problem(rule="missing", place=video, message="lengths without a transcript")]
    problems = []
    outside = sorted({action for action in transcript if not 0 <= action < n_actions})
    if outside:
        problems.append(
            Problem(
                rule="range",
                place=video,
                value=outside,
                message=f"unknown action ids in the transcript: {some(outside)}; expected 0 to {n_actions - 1}",
            )
        )
    if not transcript:
        problems.append(
            Problem(rule="missing", place=video, message="empty transcript", hint="use None if it is not known")
        )
    if len(transcript) > frames:
        problems.append(
            Problem(
                rule="mismatch",
                place=video,
                value=len(transcript),
                message=f"{counted(len(transcript), 'segment')} in {counted(frames, 'frame')}, each needs one or more",
            )
        )
    if lengths is not None:
        problems += _length_problems(video, frames, len(transcript), lengths)
    return problems


def _length_problems(video: str, frames: int, n_segments: int, lengths: Sequence[int]) -> list[Problem]:
    problems = []
    if len(lengths) != n_segments:
        expected = f"one length per segment ({n_segments})"
        problems.append(Problem(rule="mismatch", place=video, value=len(lengths), expected=expected))
    short = [index for index, length in enumerate(lengths) if length < 1]
    if short:
        place = f"{video}, segment {some(short)}"
        values = [lengths[index] for index in short]
        problems.append(Problem(rule="range", place=place, value=values, expected="lengths of at least 1 frame"))
    if sum(lengths) != frames:
        expected = f"lengths that add up to {counted(frames, 'frame')}"
        problems.append(Problem(rule="mismatch", place=video, value=sum(lengths), expected=expected))
    return problems

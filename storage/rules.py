"""The rules of a store's content, each broken one told as a line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from storage.constants import DTYPES, MAX_CLIP_BYTES
from storage.errors import nearest, some

_PART = re.compile(r"[^:\s]+:[^:\s]+")


def header_problems(
    dim: int,
    dtype: str,
    vocabulary: Sequence[str],
    background: Sequence[str],
    times: Mapping[str, float | None],
    metadata: Mapping[str, Any],
) -> list[str]:
    """Lines about what holds for a whole store."""
    problems = []
    if dim < 1:
        problems.append(f"a frame has at least one value, dim is {dim}: give D")
    if dtype not in DTYPES:
        problems.append(f"a store's dtype is one of {', '.join(DTYPES)}, not {dtype!r}: choose one of them")
    problems += vocabulary_problems(vocabulary, background)
    for name, value in times.items():
        positive = name in ("fps", "window", "stride")
        if value is not None and (not math.isfinite(value) or (positive and value <= 0)):
            kind = "a positive number" if positive else "a number"
            problems.append(f"{name} is {kind} or None, not {value!r}: correct it")
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        problems.append(f"metadata are values that JSON can hold, these are not ({error}): convert them")
    return problems


def vocabulary_problems(vocabulary: Sequence[str], background: Sequence[str]) -> list[str]:
    """Lines about action names that are missing, repeated or unusable, and background that is no action."""
    problems = []
    if not vocabulary:
        problems.append("a vocabulary has at least one action, this one has none: name the actions")
    for index, name in enumerate(vocabulary):
        if not name or name != name.strip() or not name.isprintable():
            problems.append(f"an action's name is printable text, that of id {index} is {name!r}: rename it")
    twice = sorted({name for name in vocabulary if list(vocabulary).count(name) > 1})
    problems += [f"action names are distinct, {name!r} stands more than once: rename one" for name in twice]
    problems += [
        f"background {name!r} is not among the actions{nearest(name, vocabulary)}: name an action"
        for name in background
        if name not in vocabulary
    ]
    if len(set(background)) < len(background):
        problems.append(f"background names are distinct, these are {', '.join(background)}: name each once")
    return problems


def id_problems(video: str, splits: Sequence[str]) -> list[str]:
    """Lines about a clip's name and the split parts in which it stands."""
    problems = []
    if not video or video != video.strip() or not video.isprintable():
        problems.append(f"an id is printable text without blanks at its ends, this is {video!r}: rename the clip")
    wrong = [part for part in splits if not _PART.fullmatch(part)]
    problems += [f"a split part is NAME:PART such as 1:train, {video!r} has {part!r}: correct it" for part in wrong]
    names = [part.split(":")[0] for part in splits]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems += [
        f"a clip stands in one part of a split, {video!r} stands in several of split {name!r}: correct it"
        for name in twice
    ]
    return problems


def shape_problems(video: str, shape: tuple[int, ...], found: np.dtype[Any], dim: int, dtype: str) -> list[str]:
    """Lines about features that are no clip `[T dim]` of real numbers, or too large for one.

    Args:
        video: the clip's id.
        shape: of its features.
        found: their dtype.
        dim: D of the store.
        dtype: of the store.
    """
    if found.kind not in "fiub" or found.itemsize > 8:
        return [f"features are real numbers of at most 64 bits, {video!r} has dtype {found}: convert them"]
    if len(shape) != 2:
        return [f"features are [T D], those of {video!r} have shape {list(shape)}: reshape them"]
    frames, values = shape
    if values != dim:
        hint = "; they look transposed" if frames == dim else ""
        return [f"features are [T {dim}], those of {video!r} have shape [{frames} {values}]{hint}: correct them"]
    if not frames:
        return [f"a clip has at least one frame, {video!r} has none: leave it out"]
    size = frames * dim * np.dtype(dtype).itemsize
    if size > MAX_CLIP_BYTES:
        return [
            f"a clip has at most {MAX_CLIP_BYTES} bytes of features, {video!r} would have {size} "
            f"({frames} frames of {dim} {dtype} values): cut it, or choose a narrower dtype"
        ]
    return []


def annotation_problems(
    video: str, frames: int, transcript: Sequence[int] | None, lengths: Sequence[int] | None, n_actions: int
) -> list[str]:
    """Lines about a transcript and lengths that contradict each other, the frames or the vocabulary.

    The same action may stand twice in a row: two repetitions, two segments.
    """
    problems = []
    if transcript is None:
        if lengths is not None:
            problems.append(f"lengths belong to a transcript, {video} has lengths only: give both or none")
        return problems
    unknown = sorted({action for action in transcript if not 0 <= action < n_actions})
    if unknown:
        problems.append(
            f"action ids are 0 to {n_actions - 1}, the transcript of {video} has {some(unknown)}: "
            "correct it or extend the vocabulary"
        )
    if not transcript:
        problems.append(f"a transcript has at least one segment, that of {video} has none: leave it out (None)")
    if len(transcript) > frames:
        problems.append(
            f"a segment lasts at least one frame, {video} has {len(transcript)} segments in {frames} frames: "
            "correct the transcript or use denser features"
        )
    if lengths is None:
        return problems
    if len(lengths) != len(transcript):
        problems.append(
            f"a segment has an action and a length, {video} has {len(transcript)} actions and {len(lengths)} lengths: "
            "correct one of them"
        )
    short = [index for index, length in enumerate(lengths) if length < 1]
    if short:
        problems.append(
            f"a segment lasts at least one frame, {video} has shorter ones (segment {some(short)}): leave them out"
        )
    if sum(lengths) != frames:
        problems.append(
            f"lengths add up to the frames, those of {video} to {sum(lengths)} instead of {frames}: correct them"
        )
    return problems

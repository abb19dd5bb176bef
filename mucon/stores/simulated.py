"""Writes simulated recordings as a store, one at a time; `mucon store synthesize STORE --like SOURCE`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from mucon.errors import InputError, Problem, check_ranges, nearest
from mucon.stores.sources import Recording, Source
from mucon.synthetic.feature_model import FeatureModel
from mucon.synthetic.features import Simulator, drawn_first
from storage.commands.command import show_progress
from storage.errors import some
from storage.format.records import natural
from storage.writer import StoreWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The recordings of a source that are simulated.

    Attributes:
        videos: number of training recordings of the split; its other parts keep the same share. None for all.
        longest: longest recording in frames; None for all.
        split: only recordings of that split; None for all, or for the first split if `videos` is given.

    Raises:
        InputError: numbers below 1.
    """

    videos: int | None = None
    longest: int | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        counts = (("--videos", self.videos), ("--longest", self.longest))
        check_ranges("", [(name, n, "at least 1", n is None or n >= 1) for name, n in counts])


def write_simulated(
    path: str | os.PathLike[str],
    source: Source,
    model: FeatureModel,
    *,
    preset: str,
    seed: int = 1,
    selection: Selection | None = None,
) -> int:
    """Writes simulated recordings as a store and returns their number.

    Args:
        path: the store, which is written atomically.
        source: transcripts and lengths.
        model: model of the features.
        preset: the preset that the model is or was derived from, for the metadata.
        seed: seed of features and selection.
        selection: selected recordings; None for all.

    Raises:
        InputError: a negative seed, or a selection that the source cannot satisfy.
        StoreError: `path` exists, or it cannot be written.
    """
    selection = selection or Selection()
    simulator = Simulator(model, source.vocabulary.actions, seed)
    chosen = selected(source, selection, seed)
    simulated = {
        "like": source.name,
        "kind": source.kind,
        "annotations_sha256": source.sha256,
        "preset": preset,
        "model": model.to_dict(),
        "seed": seed,
        "selection": {"videos": selection.videos, "longest": selection.longest, "split": selection.split},
    }
    with StoreWriter(
        path,
        dim=model.dim,
        dtype=model.dtype,
        vocabulary=source.vocabulary.actions,
        background=source.vocabulary.background,
        metadata={"simulated": simulated},
        fps=source.times.get("fps"),
        window=source.times.get("window"),
        stride=source.times.get("stride"),
        offset=source.times.get("offset"),
    ) as writer:
        for n, recording in enumerate(chosen, 1):
            writer.add(
                recording.id,
                simulator.features(recording.id, recording.transcript, recording.lengths),
                transcript=recording.transcript,
                lengths=recording.lengths,
                splits=recording.splits,
                group=recording.group,
                activity=recording.activity,
            )
            show_progress("simulating video", n, len(chosen))
    return len(chosen)


def selected(source: Source, selection: Selection, seed: int) -> list[Recording]:
    """The selected recordings in the order of their ids; those of a selected split belong to no other.

    Raises:
        InputError: no recording is short enough, no such split, or fewer training recordings than requested.
    """
    kept = list(source.recordings)
    if selection.longest is not None:
        kept = [recording for recording in kept if sum(recording.lengths) <= selection.longest]
        if not kept:
            shortest = min(sum(recording.lengths) for recording in source.recordings)
            expected = f"at least {shortest} frames, the shortest recording of {source.name}"
            raise InputError(Problem(rule="range", place="--longest", value=selection.longest, expected=expected))
    if selection.split is None and selection.videos is None:
        return kept
    splits = sorted({part.split(":")[0] for recording in source.recordings for part in recording.splits}, key=natural)
    split = selection.split if selection.split is not None else next(iter(splits), "1")
    if split not in splits:
        message = (
            f"{source.name} has no split {split!r}{nearest(split, splits)}; its splits: {some(splits, 20) or 'none'}"
        )
        raise InputError(Problem(rule="unknown", place="--split", value=split, message=message))
    parts: dict[str, list[Recording]] = {}
    for recording in kept:
        for part in recording.splits:
            if part.split(":")[0] == split:
                parts.setdefault(part, []).append(replace(recording, splits=(part,)))
    if selection.videos is not None:
        _shrink(parts, f"{split}:train", selection.videos, seed)
    chosen = [recording for recordings in parts.values() for recording in recordings]
    if not chosen:
        message = f"split {split} of {source.name} has no recording of at most {selection.longest} frames"
        raise InputError(Problem(rule="range", place="--longest", value=selection.longest, message=message))
    return sorted(chosen, key=lambda recording: recording.id)


def _shrink(parts: dict[str, list[Recording]], training: str, n: int, seed: int) -> None:
    """Keeps n recordings of the training part, and the same share of the other parts, at least one."""
    available = len(parts.get(training, ()))
    if n > available:
        expected = f"at most {available}, the recordings of {training}"
        raise InputError(Problem(rule="range", place="--videos", value=n, expected=expected))
    for part, recordings in parts.items():
        size = n if part == training else max(1, (2 * n * len(recordings) + available) // (2 * available))
        chosen = set(drawn_first([recording.id for recording in recordings], size, seed))
        parts[part] = [recording for recording in recordings if recording.id in chosen]

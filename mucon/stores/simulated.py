"""`mucon store synthesize STORE --like SOURCE`: a store of simulated recordings, written one after the other."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from mucon.errors import InputError
from mucon.stores.sources import Recording, Source
from mucon.synthetic.feature_model import FeatureModel
from mucon.synthetic.features import Simulator, drawn_first
from storage.cli import show_progress
from storage.errors import some
from storage.records import natural
from storage.writer import StoreWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which recordings of a source are made.

    Attributes:
        videos: so many training recordings of the split, and the same share of its other parts; None for all.
        longest: only recordings of at most so many frames; None for all.
        split: only recordings of that split; None for all, or the first split where `videos` asks for one.

    Raises:
        InputError: numbers below 1.
    """

    videos: int | None = None
    longest: int | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        counts = (("--videos", self.videos), ("--longest", self.longest))
        if problems := [f"{name} is at least 1, not {n}: give more" for name, n in counts if n is not None and n < 1]:
            raise InputError(problems)


def write_simulated(
    path: str | os.PathLike[str],
    source: Source,
    model: FeatureModel,
    *,
    preset: str,
    seed: int = 1,
    selection: Selection | None = None,
) -> int:
    """Writes simulated recordings as a store, one at a time, and gives their number.

    Args:
        path: where the store appears, whole or not at all.
        source: of transcripts and lengths.
        model: of the features.
        preset: whose model it is, or from which it was changed; for the metadata.
        seed: of features and selection.
        selection: which recordings; all where None.

    Raises:
        InputError: a negative seed, or a selection that the source cannot fill.
        StoreError: something stands at `path`, or it cannot be written.
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
    """The recordings of a selection, in the order of their ids; with a split, they stand in no other.

    Raises:
        InputError: nothing is as short as that, no such split, or fewer training recordings than asked for.
    """
    kept = list(source.recordings)
    if selection.longest is not None:
        kept = [recording for recording in kept if sum(recording.lengths) <= selection.longest]
        if not kept:
            shortest = min(sum(recording.lengths) for recording in source.recordings)
            raise InputError(
                f"--longest leaves at least one video, the shortest of {source.name} has {shortest} frames and "
                f"{selection.longest} was given: give more"
            )
    if selection.split is None and selection.videos is None:
        return kept
    known = sorted({part.split(":")[0] for recording in source.recordings for part in recording.splits}, key=natural)
    split = selection.split if selection.split is not None else next(iter(known), "1")
    if split not in known:
        raise InputError(
            f"the splits of {source.name} are {some(known, 20) or 'none'}, not {split!r}: name one of them"
        )
    parts: dict[str, list[Recording]] = {}
    for recording in kept:
        for part in recording.splits:
            if part.split(":")[0] == split:
                parts.setdefault(part, []).append(replace(recording, splits=(part,)))
    if selection.videos is not None:
        _shrink(parts, f"{split}:train", selection.videos, seed)
    chosen = [recording for recordings in parts.values() for recording in recordings]
    if not chosen:
        raise InputError(
            f"a split has videos, {split} of {source.name} has none of at most {selection.longest} frames: give more"
        )
    return sorted(chosen, key=lambda recording: recording.id)


def _shrink(parts: dict[str, list[Recording]], training: str, n: int, seed: int) -> None:
    """Leaves n recordings of the training part, and the same share of the others, at least one."""
    available = len(parts.get(training, ()))
    if n > available:
        raise InputError(f"--videos is at most what {training} has, {available}, not {n}: give fewer")
    for part, recordings in parts.items():
        size = n if part == training else max(1, (2 * n * len(recordings) + available) // (2 * available))
        chosen = set(drawn_first([recording.id for recording in recordings], size, seed))
        parts[part] = [recording for recording in recordings if recording.id in chosen]

"""Reads transcripts and lengths for `mucon store synthesize --like` from a folder of annotations or a store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mucon.errors import InputError, Problem, condensed, nearest
from mucon.synthetic.annotations import read_annotations
from mucon.synthetic.lengths import STATISTICS, completed, read_statistics
from mucon.vocabulary import Vocabulary
from storage.constants import MANIFEST
from storage.layouts.mapping import read_mapping
from storage.layouts.splits import read_splits
from storage.layouts.text import Names
from storage.names import normal
from storage.reader import open_store
from storage.remote.addresses import StorePlace, name_of

_BACKGROUND = ("sil", "silence", "background", "bg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The real part of a simulated recording; the fields are those of `StoreWriter.add`."""

    id: str
    transcript: tuple[int, ...]
    lengths: tuple[int, ...]
    splits: tuple[str, ...]
    group: str | None
    activity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Recordings without features.

    Attributes:
        name: name of the folder, for the metadata.
        kind: `annotations` or `store`.
        vocabulary: actions of the transcripts.
        times: `fps`, `window`, `stride` and `offset`, as far as known.
        recordings: recordings in the order of their ids.
        notes: lines to print.
    """

    name: str
    kind: str
    vocabulary: Vocabulary
    times: dict[str, float | None]
    recordings: tuple[Recording, ...]
    notes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the actions and of all annotations."""
        content = [
            self.vocabulary.to_dict(),
            [[r.id, r.transcript, r.lengths, r.splits, r.group, r.activity] for r in self.recordings],
        ]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def read_source(path: StorePlace, background: Sequence[str] = (), seed: int = 1) -> Source:
    """Reads a folder of annotations or a store.

    Args:
        path: folder of annotations, or folder or URI of a store.
        background: names of the background actions of a folder; by default those called SIL, silence, background or
            bg.
        seed: seed of random lengths.

    Raises:
        InputError: neither a folder of annotations nor a store, or an invalid folder, with one problem per mistake.
        StoreError: a damaged store, or invalid split files.
    """
    if isinstance(path, Path) and not (path / MANIFEST).is_file():
        return _folder_source(path, background, seed)
    if background:
        message = f"{path} is a store, which defines its background"
        problem = Problem(rule="conflict", place="--background", value=list(background), message=message)
        raise InputError(problem)
    store = open_store(path)
    problems: list[Problem] = []
    recordings: list[Recording] = []
    for record in store.catalogue.records():
        if record.transcript is None or record.lengths is None:
            missing = "transcript" if record.transcript is None else "lengths"
            message = f"no {missing}; a simulated recording needs both transcript and lengths"
            problems.append(Problem(rule="missing", place=f"{path}: {record.id}", message=message))
            continue
        recordings.append(
            Recording(
                id=record.id,
                transcript=record.transcript,
                lengths=record.lengths,
                splits=record.splits,
                group=record.group,
                activity=record.activity,
            )
        )
    if problems:
        raise InputError(condensed(problems))
    header = store.manifest
    return Source(
        name=name_of(store.address),
        kind="store",
        vocabulary=Vocabulary(header.vocabulary, header.background),
        times={"fps": header.fps, "window": header.window, "stride": header.stride, "offset": header.offset},
        recordings=tuple(recordings),
        notes=(),
    )


def _folder_source(folder: Path, background: Sequence[str], seed: int) -> Source:
    annotations, notes = completed(read_annotations(folder), read_statistics(folder / STATISTICS), seed)
    used = {action: annotation.place for annotation in reversed(annotations) for action in annotation.transcript}
    mapping = folder / "mapping.txt"
    actions = tuple(read_mapping(mapping).values()) if mapping.exists() else tuple(sorted(used))
    problems = [
        Problem(
            rule="unknown",
            place=used[action],
            value=action,
            message=f"action {action!r} is not in {mapping}{nearest(action, actions)}",
        )
        for action in sorted(set(used) - set(actions))
    ]
    splits = read_splits(folder / "splits", Names(annotation.id for annotation in annotations))
    if problems or splits.problems:
        raise InputError([*condensed(problems), *splits.problems])
    if not background:
        background = [action for action in actions if action.lower() in _BACKGROUND]
        notes += [f"{action!r} is used as background" for action in background]
    vocabulary = Vocabulary(actions, tuple(map(normal, background)))
    recordings = tuple(
        Recording(
            id=annotation.id,
            transcript=vocabulary.ids(annotation.transcript),
            lengths=annotation.lengths or (),
            splits=splits.of(annotation.id),
            group=annotation.group,
            activity=annotation.activity,
        )
        for annotation in annotations
    )
    return Source(
        name=folder.resolve().name,
        kind="annotations",
        vocabulary=vocabulary,
        times={},
        recordings=recordings,
        notes=(*notes, *splits.notes),
    )

"""Where `mucon store synthesize --like` finds transcripts and lengths: a folder of annotations, or a store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mucon.errors import InputError, nearest
from mucon.synthetic.annotations import read_annotations
from mucon.synthetic.lengths import STATISTICS, completed, read_statistics
from mucon.vocabulary import Vocabulary
from storage.constants import MANIFEST
from storage.layouts.mapping import read_mapping
from storage.layouts.splits import read_splits
from storage.layouts.text import Names
from storage.reader import open_store

_BACKGROUND = ("sil", "silence", "background", "bg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What is real of a simulated recording; the fields are those of `StoreWriter.add`."""

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
        name: of the folder, for the metadata.
        kind: `annotations` or `store`.
        vocabulary: of the transcripts.
        times: `fps`, `window`, `stride` and `offset`, where known.
        recordings: in the order of their ids.
        notes: lines that the user should see.
    """

    name: str
    kind: str
    vocabulary: Vocabulary
    times: dict[str, float | None]
    recordings: tuple[Recording, ...]
    notes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Of the actions and of all recordings' annotations, hexadecimal."""
        content = [
            self.vocabulary.to_dict(),
            [[r.id, r.transcript, r.lengths, r.splits, r.group, r.activity] for r in self.recordings],
        ]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def read_source(path: Path, background: Sequence[str] = (), seed: int = 1) -> Source:
    """A folder of annotations or a store.

    Args:
        path: of either.
        background: names of the actions that are background, for a folder; where none is given those that are called
            SIL, silence, background or bg.
        seed: of lengths that are drawn.

    Raises:
        InputError: neither, or a folder that does not fit; all problems told at once.
        StoreError: a damaged store, or wrong split files.
    """
    if not (path / MANIFEST).is_file():
        return _folder_source(path, background, seed)
    if background:
        raise InputError(f"a store says what its background is, {path} is a store: leave out --background")
    store = open_store(path)
    problems = []
    recordings = []
    for record in store.catalogue.records():
        if record.transcript is None or record.lengths is None:
            what = "transcript" if record.transcript is None else "lengths"
            problems.append(
                f"simulated recordings need transcript and lengths, {record.id!r} of {path} has no {what}: "
                "annotate it, or take a store without it"
            )
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
        raise InputError(problems)
    header = store.manifest
    return Source(
        name=store.path.name,
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
        f"the actions of a transcript stand in {mapping}, {action!r} ({used[action]}) does not"
        f"{nearest(action, actions)}: add it or correct it"
        for action in sorted(set(used) - set(actions))
    ]
    splits = read_splits(folder / "splits", Names(annotation.id for annotation in annotations))
    problems += splits.problems
    if problems:
        raise InputError(problems)
    if not background:
        background = [action for action in actions if action.lower() in _BACKGROUND]
        notes += [f"{action!r} is taken as background" for action in background]
    vocabulary = Vocabulary(actions, tuple(background))
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

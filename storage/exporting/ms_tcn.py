"""Writes a store in the layout of MS-TCN, from which `store import` makes the same store again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np

from storage.constants import RESTORE_HINT
from storage.errors import Problem, StoreError, some
from storage.exporting.description import FILE, Description
from storage.exporting.file_names import bundle_name, id_file_problems
from storage.failpoints import reach
from storage.folders import StagedFolder, check_space, check_target, write_file
from storage.format.records import Record
from storage.format.schema import little_endian
from storage.format.shards import as_bytes
from storage.layouts import Progress, no_progress
from storage.reader import Store

FEATURES, LABELS, TRANSCRIPTS, MAPPING, SPLITS = "features", "groundTruth", "transcripts", "mapping.txt", "splits"
PREDICTIONS = "predictions"
_SUFFIXES = {FEATURES: ".npy", LABELS: ".txt", TRANSCRIPTS: ".txt", PREDICTIONS: ".txt", SPLITS: ".bundle"}
"""Folders of the layout and the suffixes of their files."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export.

    Attributes:
        n_videos: number of clips.
        n_bytes: size of all files.
    """

    n_videos: int
    n_bytes: int


def export_store(
    store: Store,
    target: Path,
    *,
    predictions: Iterable[tuple[str, Iterable[str]]] | None = None,
    replace: bool = False,
    progress: Progress = no_progress,
) -> Exported:
    """Writes a store as a folder, atomically.

    Args:
        store: the store.
        target: the new folder.
        predictions: id and predicted actions of the frames of each predicted clip; they take the place of the features.
        replace: whether to replace an earlier export at `target`.
        progress: called for each clip.

    Raises:
        StoreError: ids that cannot be names of files, a target that exists or is too small, or damaged features.
    """
    target = Path(os.path.realpath(target))
    check_target(target, marker=FILE, replace=replace)
    problems = _place_problems(store, target) + id_file_problems(store.ids, target)
    if problems:
        raise StoreError(problems)
    records = store.catalogue.records()
    check_space(target, _size(store, records, features=predictions is None))
    folder = _Folder(target, replace=replace)
    with folder.writing():
        folder.write_annotations(store, records)
        if predictions is None:
            for done, record in enumerate(records, 1):
                folder.write_features(store, record)
                progress("writing", done, len(records))
        else:
            for video, names in predictions:
                folder.write_lines(f"{PREDICTIONS}/{video}.txt", names)
    return Exported(len(records), folder.n_bytes)


def _place_problems(store: Store, target: Path) -> list[Problem]:
    """Reports a target inside of the store or around it, and files in the target that are not of an export."""
    if target.is_relative_to(store.path) or store.path.is_relative_to(target):
        message = f"overlaps the store {store.path}"
        return [Problem(rule="conflict", place=str(target), message=message, hint="choose another path")]
    files = [path.relative_to(target) for path in target.rglob("*") if not path.is_dir()]
    foreign = sorted(
        path.as_posix()
        for path in files
        if path.as_posix() not in (FILE, MAPPING)
        and (len(path.parts) < 2 or path.suffix != _SUFFIXES.get(path.parts[0]))
    )
    if not foreign:
        return []
    message = f"contains files that are not of an export: {some(foreign)}"
    return [Problem(rule="exists", place=str(target), value=foreign, message=message, hint="choose another path")]


def _size(store: Store, records: Iterable[Record], *, features: bool) -> int:
    """Returns about how many bytes the files need, at least."""
    widths = [len(name.encode()) + 1 for name in store.manifest.vocabulary]
    frame = store.manifest.dim * little_endian(store.manifest.dtype).itemsize if features else 0
    labels = sum(
        widths[action] * length
        for record in records
        for action, length in zip(record.transcript or (), record.lengths or (), strict=False)
    )
    return labels + store.manifest.n_frames * frame


class _Folder:
    """The folder of an export under construction.

    Args:
        target: its path.
        replace: whether to replace an earlier export.

    Attributes:
        n_bytes: size of the files so far.
    """

    def __init__(self, target: Path, *, replace: bool) -> None:
        self.target = target
        self.n_bytes = 0
        with self._disk_failures():
            self._staged = StagedFolder(target, marker=FILE, replace=replace)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Publishes the folder when the block ends, and removes it after an exception."""
        published = False
        try:
            with self._disk_failures():
                yield
                self._staged.publish()
            published = True
        finally:
            if not published:
                self._staged.discard()

    @contextmanager
    def _disk_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message, hint = f"cannot write the folder ({error})", "free some space or choose another path"
            raise StoreError(
                Problem(rule="unwritable", place=str(self.target), value=error.strerror, message=message, hint=hint)
            ) from error

    def write_annotations(self, store: Store, records: list[Record]) -> None:
        """Writes everything but the features."""
        manifest = store.manifest
        self.write_lines(MAPPING, (f"{index} {name}" for index, name in enumerate(manifest.vocabulary)))
        bundles = {part: bundle_name(part) for part in store.parts}
        for part, file in bundles.items():
            if file is not None:
                self.write_lines(f"{SPLITS}/{file}", (f"{video}.txt" for video in store.parts[part]))
        for record in records:
            if record.transcript is None:
                continue
            names = [manifest.vocabulary[action] for action in record.transcript]
            if record.lengths is None:
                self.write_lines(f"{TRANSCRIPTS}/{record.id}.txt", names)
            else:
                runs = zip(names, record.lengths, strict=True)
                self.write_lines(f"{LABELS}/{record.id}.txt", (name for name, n in runs for _ in range(n)))
        description = Description(
            dtype=manifest.dtype,
            background=manifest.background,
            fps=manifest.fps,
            window=manifest.window,
            stride=manifest.stride,
            offset=manifest.offset,
            metadata=manifest.metadata,
            groups={record.id: record.group for record in records if record.group is not None},
            activities={record.id: record.activity for record in records if record.activity is not None},
            lengths={record.id: record.lengths for record in records if record.lengths and _repeats(record)},
            unannotated=tuple(record.id for record in records if record.transcript is None),
            parts={part: store.parts[part] for part, file in bundles.items() if file is None},
        )
        self._write(FILE, description.to_json().encode())

    def write_features(self, store: Store, record: Record) -> None:
        """Writes the features of a clip.

        Raises:
            StoreError: they fail their checksum.
        """
        features = store.features(record.id)
        if (digest := sha256(as_bytes(features)).hexdigest()) != record.sha256:
            place, message = f"{store.address}: {record.id}", "features fail their checksum"
            raise StoreError(Problem(rule="damaged", place=place, value=digest, message=message, hint=RESTORE_HINT))
        path = self._path(f"{FEATURES}/{record.id}.npy")
        with path.open("xb") as file:
            np.lib.format.write_array(file, features, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
            self.n_bytes += file.tell()
        reach("storage.export.features")

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """Writes a text file."""
        self._write(name, "".join(f"{line}\n" for line in lines).encode())

    def _write(self, name: str, content: bytes) -> None:
        write_file(self._path(name), content)
        self.n_bytes += len(content)

    def _path(self, name: str) -> Path:
        path = self._staged.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _repeats(record: Record) -> bool:
    return any(a == b for a, b in pairwise(record.transcript or ()))

"""Stores and datasets for tests, generated from a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage import StoreWriter
from storage.constants import Limits
from storage.format.manifest import Manifest
from storage.format.shards import file_digest

Array = NDArray[Any]
VOCABULARY = ("SIL", "pour", "stir")
SMALL = Limits(row_group_bytes=2000, shard_row_groups=3, shard_bytes=6000)
"""Gives several clips per row group, several row groups per shard, and several shards."""


def clips_of(lengths: Sequence[int], dim: int = 4, dtype: str = "float32", seed: int = 0) -> dict[str, Array]:
    """Returns random features by id, `v000` and so on."""
    generator = np.random.default_rng(seed)
    return {f"v{i:03d}": generator.normal(size=(n, dim)).astype(dtype) for i, n in enumerate(lengths)}


def write_store(path: Path, clips: Mapping[str, Array], *, limits: Limits = SMALL, **options: Any) -> Path:
    """Writes a store of clips with two segments each, if they are long enough; every third clip is a test clip."""
    first = next(iter(clips.values()))
    arguments: dict[str, Any] = {"vocabulary": VOCABULARY, "background": ("SIL",), **options}
    dtype = arguments.pop("dtype", first.dtype.name)
    with StoreWriter(path, dim=first.shape[1], dtype=dtype, limits=limits, **arguments) as writer:
        for index, (video, features) in enumerate(clips.items()):
            frames = len(features)
            writer.add(
                video,
                features,
                transcript=(1, 2) if frames > 1 else (1,),
                lengths=(1, frames - 1) if frames > 1 else (1,),
                splits=("1:test" if index % 3 == 2 else "1:train",),
                group=f"g{index % 2}",
            )
    return path


def rewrite_shards(store: Path, **options: Any) -> None:
    """Rewrites the shards with other options, as another tool would, and updates the manifest."""
    row_group_size = options.pop("row_group_size", None)
    change_manifest(store, lambda _: None)
    manifest = Manifest.from_json((store / "manifest.json").read_text(), "test")
    shards = []
    for shard in manifest.shards:
        path = store / shard.file
        table = pq.read_table(path)
        pq.write_table(table, path, row_group_size=row_group_size or len(table), **options)
        digest, size = file_digest(path)
        groups = pq.ParquetFile(path).metadata.num_row_groups
        shards.append({"file": shard.file, "bytes": size, "sha256": digest, "row_groups": groups, "frames": len(table)})
    change_manifest(store, lambda value: value.update(shards=shards))


def change_manifest(store: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Edits `manifest.json` and updates its checksum."""
    path = store / "manifest.json"
    value = json.loads(path.read_text())
    change(value)
    value.pop("sha256", None)
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    value["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    path.write_text(json.dumps(value))


def flip(path: Path, position: int, mask: int = 0x40) -> None:
    """Flips bits of one byte of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns the content of every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclass
class DataSet:
    """A dataset in the layout of MS-TCN that tests modify before they write it.

    Attributes:
        features: `[T D]` by id.
        labels: names by id.
        mapping: lines of `mapping.txt`, None for no such file.
        splits: lines by name of the bundle.
        transposed: whether the files are `[D T]`.
        end: end of each line of the text files.
        begin: first characters of the text files.
        after: last characters of the text files.
        twice: videos whose first segment is written as two, the first of one frame, where the layout has segments.
    """

    features: dict[str, Array] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    mapping: list[str] | None = field(default_factory=lambda: ["0 SIL", "1 pour", "2 stir"])
    splits: dict[str, list[str]] = field(default_factory=dict)
    transposed: bool = False
    end: str = "\n"
    begin: str = ""
    after: str = ""
    twice: frozenset[str] = frozenset()

    @classmethod
    def example(cls, lengths: Sequence[int] = (30, 41, 25, 52), dim: int = 6, dtype: str = "float32") -> DataSet:
        """Returns videos with the labels SIL, pour, stir, SIL; the last two are the test part of split 1."""
        features = clips_of(lengths, dim, dtype)
        labels = {}
        for video, values in features.items():
            frames = len(values)
            cuts = [0, frames // 4, frames // 2, 3 * frames // 4, frames]
            names = ("SIL", "pour", "stir", "SIL")
            labels[video] = [name for name, a, b in zip(names, cuts, cuts[1:], strict=False) for _ in range(b - a)]
        ids = list(features)
        lines = {"train": [f"{v}.txt" for v in ids[:-2]], "test": [f"{v}.txt" for v in ids[-2:]]}
        return cls(features, labels, splits={f"{part}.split1.bundle": names for part, names in lines.items()})

    def segments(self, video: str) -> list[tuple[str, int]]:
        """Action and length of each segment of a video."""
        runs = [(name, len(list(run))) for name, run in groupby(self.labels[video])]
        (name, length), *others = runs
        return [(name, 1), (name, length - 1), *others] if video in self.twice else runs

    def write(self, folder: Path) -> Path:
        """Writes all files and returns the folder."""
        self.write_features(folder)
        for name, lines in self.labels.items():
            self.text(folder / "groundTruth" / f"{name}.txt", lines)
        self.write_shared(folder)
        return folder

    def write_features(self, folder: Path) -> None:
        """Writes the feature files."""
        for name, values in self.features.items():
            path = folder / "features" / f"{name}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, values.T if self.transposed else values)

    def write_shared(self, folder: Path) -> None:
        """Writes mapping and splits."""
        if self.mapping is not None:
            self.text(folder / "mapping.txt", self.mapping)
        for name, lines in self.splits.items():
            self.text(folder / "splits" / name, lines)

    def text(self, path: Path, lines: Sequence[str]) -> None:
        """Writes a text file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((self.begin + "".join(line + self.end for line in lines) + self.after).encode())

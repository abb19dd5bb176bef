"""Stores and data sets for tests, made from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storage import StoreWriter
from storage.manifest import Manifest
from storage.schema import Limits
from storage.shards import file_digest

Array = NDArray[Any]
VOCABULARY = ("SIL", "pour", "stir")
SMALL = Limits(row_group_bytes=2000, shard_row_groups=3, shard_bytes=6000)
"""Several clips a row group, several row groups a shard, several shards."""


def clips_of(lengths: Sequence[int], dim: int = 4, dtype: str = "float32", seed: int = 0) -> dict[str, Array]:
    """Random features by id, `v000` and so on."""
    generator = np.random.default_rng(seed)
    return {f"v{i:03d}": generator.normal(size=(n, dim)).astype(dtype) for i, n in enumerate(lengths)}


def write_store(path: Path, clips: Mapping[str, Array], *, limits: Limits = SMALL, **options: Any) -> Path:
    """A store of these clips: two segments each where that fits, every third clip is in the test part."""
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
    """Lets another tool write the shards anew (same rows in the same order) and the manifest agree with them."""
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
    """Edits `manifest.json` and makes it agree with its own checksum again."""
    import hashlib

    path = store / "manifest.json"
    value = json.loads(path.read_text())
    change(value)
    value.pop("sha256", None)
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    value["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    path.write_text(json.dumps(value))


def flip(path: Path, position: int, mask: int = 0x40) -> None:
    """Changes one byte of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

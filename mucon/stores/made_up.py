"""Stores of made-up recordings, such as the demo's."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from mucon.synthetic.grammar import SyntheticData, synthesize
from mucon.synthetic.grammar_config import SyntheticConfig
from storage.writer import StoreWriter


def demo_store(path: str | os.PathLike[str], seed: int = 1) -> Path:
    """Writes the demo's recordings as a store.

    Args:
        path: folder of the new store; written atomically.
        seed: at least 0; equal seeds give identical features.

    Returns:
        `path`.

    Raises:
        InputError: a negative seed.
        StoreError: `path` exists or cannot be written.
    """
    return write_synthetic(SyntheticConfig(seed=seed), path)


def write_synthetic(config: SyntheticConfig, path: str | os.PathLike[str]) -> Path:
    """Writes made-up recordings as a store, one at a time, so that a dataset may be larger than the memory.

    Args:
        config: recorded in the store's metadata.
        path: folder of the new store; written atomically.

    Returns:
        `path`.

    Raises:
        StoreError: `path` exists or cannot be written.
    """
    data = synthesize(config)
    parts = _parts(data)
    with StoreWriter(
        path,
        dim=config.features.dim,
        dtype="float32",
        vocabulary=data.vocabulary.actions,
        background=data.vocabulary.background,
        metadata={"synthetic": dataclasses.asdict(config)},
    ) as writer:
        for video in data.videos:
            writer.add(
                video.id,
                video.read(),
                transcript=video.transcript,
                lengths=video.lengths,
                splits=parts[video.id],
                activity=data.activities[video.id],
            )
    return Path(path)


def _parts(data: SyntheticData) -> dict[str, list[str]]:
    """The parts of splits, such as `1:train`, of each video."""
    parts: dict[str, list[str]] = {video.id: [] for video in data.videos}
    for split, ids_by_part in data.splits.items():
        for part, ids in ids_by_part.items():
            for id in ids:
                parts[id].append(f"{split}:{part}")
    return parts

"""Ceilings of frame accuracy, compared with a plain loop over latent frames."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from storage import StoreWriter, open_store
from storage.inspection import pooling
from storage.inspection.pooling import POOLINGS, pooling_of, pooling_rows


def right_frames(labels: list[int], by: int) -> int:
    """Frames that the best constant prediction of each latent frame gets right."""
    latent = max(len(labels) // by, 1)
    windows: dict[int, Counter[int]] = {}
    for t, label in enumerate(labels):
        windows.setdefault(t * latent // len(labels), Counter())[label] += 1
    return sum(max(counts.values()) for counts in windows.values())


@pytest.mark.parametrize("batch", [1, 2**20])
def test_the_ceilings_are_those_of_a_plain_loop(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(pooling, "BATCH_FRAMES", batch)
    random = np.random.default_rng(5)
    every = []
    with StoreWriter(tmp_path / "s", dim=1, dtype="float32", vocabulary=[f"a{i}" for i in range(6)]) as writer:
        for i in range(12):
            transcript = random.integers(0, 6, random.integers(1, 9)).tolist()
            lengths = random.integers(1, 30, len(transcript)).tolist()
            features = np.zeros((sum(lengths), 1), np.float32)
            writer.add(f"v{i:02d}", features, transcript=transcript, lengths=lengths)
            every.append(np.repeat(transcript, lengths).tolist())
    found = pooling_of(open_store(tmp_path / "s"))
    total = sum(map(len, every))
    assert found.ceiling == {by: sum(right_frames(one, by) for one in every) / total for by in POOLINGS}
    assert found.ceiling[1] == 1


def test_the_recommended_pooling_is_the_largest_that_allows_98_percent_and_crowds_no_recording(tmp_path):
    with StoreWriter(tmp_path / "s", dim=1, dtype="float32", vocabulary=["a", "b"]) as writer:
        writer.add("even", np.zeros((4096, 1), np.float32), transcript=(0, 1), lengths=(2048, 2048))
        writer.add("short", np.zeros((24, 1), np.float32), transcript=(0, 1, 0), lengths=(8, 8, 8))
        writer.add("weak", np.zeros((10, 1), np.float32), transcript=(0, 1))
    found = pooling_of(open_store(tmp_path / "s"))
    assert found.ceiling[16] > 0.99
    assert found.crowded == {1: 0, 2: 0, 4: 0, 8: 1, 16: 2, 32: 2, 64: 2}
    assert found.recommended == 4


def test_without_labels_there_is_no_ceiling(tmp_path):
    with StoreWriter(tmp_path / "s", dim=1, dtype="float32", vocabulary=["a"]) as writer:
        writer.add("x", np.zeros((3, 1), np.float32), transcript=(0,))
    found = pooling_of(open_store(tmp_path / "s"))
    assert (found.ceiling, found.recommended, pooling_rows(found)) == ({}, None, [])

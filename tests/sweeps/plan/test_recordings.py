"""Facts about a store's splits, and recordings without the annotations that a sweep needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storage import StoreWriter, open_store
from sweeps.service.plan.recordings import split_data, split_facts, split_names
from tests.helpers.refusals import refused


def store_with_gaps(path: Path) -> Path:
    """Three training videos, one without transcript, and two test videos, one without lengths; no test part of `2`."""
    with StoreWriter(path, dim=2, dtype="float32", vocabulary=("rest", "pour")) as writer:
        for video, part, transcript, lengths in (
            ("a", "1:train", [0, 1], [3, 5]),
            ("b", "1:train", None, None),
            ("c", "1:train", [1], None),
            ("d", "1:test", [0, 1], [4, 4]),
            ("e", "1:test", [0, 1], None),
        ):
            splits = (part, "2:train") if video == "a" else (part,)
            features = np.zeros((8, 2), np.float32)
            writer.add(video, features, transcript=transcript, lengths=lengths, splits=splits)
    return path


def test_training_videos_without_transcript_are_refused_and_test_videos_without_lengths_are_not(tmp_path: Path) -> None:
    store = open_store(store_with_gaps(tmp_path / "store"))
    with refused("missing", place=f"{store.path}: b", value="b", n=1):
        split_data(store, "1")


def test_only_splits_with_a_training_and_a_test_part_have_a_name(tmp_path: Path) -> None:
    assert split_names(open_store(store_with_gaps(tmp_path / "store"))) == ("1",)


def test_a_split_has_counts_baselines_and_the_asked_ceilings(tiny_store: Path) -> None:
    store = open_store(tiny_store)
    data = split_data(store, "1", poolings={1, 4})
    assert (data.n_train, data.n_test) == (6, 3)
    assert data.commonest == "rest"
    assert data.ceilings["1"] == 1.0
    assert 0.9 < data.ceilings["4"] < 1.0
    assert 0 < data.blind["mof"] <= data.blind_alignment["mof"] < 1
    assert data == split_data(store, "1", split_facts(store, "1"), {1, 4})


def test_a_fingerprint_covers_the_lengths_that_training_and_scoring_use(tiny_store: Path) -> None:
    facts = split_facts(open_store(tiny_store), "1")
    assert facts.fingerprint() == facts.fingerprint(0.0, 2)
    prints = {facts.fingerprint(*one) for one in ((0.0, 1), (0.5, 1), (0.5, 2), (1.0, 1))}
    assert len(prints) == 4
    assert facts.fingerprint(1.0, 1) == facts.fingerprint(1.0, 2)

"""Statistics of features by split part, useless dimensions, and test sets that are shifted or are not."""

from __future__ import annotations

import numpy as np
import pytest

from storage import StoreWriter, open_store
from storage.inspection import features as module
from storage.inspection.features import feature_facts
from storage.inspection.findings import inspect_store

DIM = 12


def clips_of(n_groups, seed=0, spread=0.3):
    """Features of two clips for each group; groups differ in all dimensions."""
    random = np.random.default_rng(seed)
    return {
        f"p{group:02d}_{take}": offset + random.standard_normal((120, DIM))
        for group in range(n_groups)
        for offset in [spread * random.standard_normal(DIM)]
        for take in (1, 2)
    }


def written(path, clips, *, n_test=3, change=lambda features: features, grouped=True):
    """A store in which the last groups are the test part, with changed features."""
    groups = sorted({id[:3] for id in clips})
    with StoreWriter(path, dim=DIM, dtype="float32", vocabulary=["a"]) as writer:
        for id, features in clips.items():
            is_test = id[:3] in groups[len(groups) - n_test :]
            values = change(features) if is_test else features
            part = "1:test" if is_test else "1:train"
            group = id[:3] if grouped else None
            writer.add(id, values.astype(np.float32), transcript=(0,), splits=(part,), group=group)
    return open_store(path)


def moved(features):
    return np.concatenate([features[:, :1] + 5, features[:, 1:]], axis=1)


@pytest.mark.parametrize(
    ("change", "moves", "scales"),
    [
        (lambda x: 2 * x, False, True),
        (lambda x: x + 1, True, False),
        (lambda x: x / 2, False, True),
        (moved, True, False),
    ],
)
def test_a_shifted_test_set_is_a_warning(tmp_path, change, moves, scales):
    store = written(tmp_path / "s", clips_of(12), change=change)
    facts = feature_facts(store)
    (problem,) = facts.warnings()
    assert (problem.rule, problem.place) == ("mismatch", "split 1, test")
    shift = facts.shifts["1:test"]
    assert problem.value == {"moved": list(shift.moved), "scaled": list(shift.scaled)}
    assert (bool(shift.moved), bool(shift.scaled)) == (moves, scales)
    if change is moved:
        assert shift.moved == (0,)


@pytest.mark.parametrize(("n_test", "grouped"), [(1, True), (3, True), (9, True), (3, False), (9, False)])
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5])
def test_a_test_set_of_the_same_kind_is_none(tmp_path, n_test, spread, grouped):
    store = written(tmp_path / "s", clips_of(18, seed=n_test, spread=spread), n_test=n_test, grouped=grouped)
    facts = feature_facts(store)
    assert facts.warnings() == []
    assert "1:test" in facts.shifts


def test_parts_are_not_compared_with_a_training_part_of_few_groups(tmp_path):
    store = written(tmp_path / "s", clips_of(6), n_test=2, change=lambda x: 9 * x)
    assert feature_facts(store).shifts == {}


@pytest.mark.parametrize("chunk", [DIM, 2**19])
def test_the_statistics_are_those_of_all_values_of_a_part(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK_VALUES", chunk)
    clips = clips_of(6)
    clips["p00_1"][:7] = 0
    store = written(tmp_path / "s", clips)
    for part, one in feature_facts(store).values.items():
        values = np.concatenate([store.features(id) for id in store.split(*part.split(":"))]).astype(np.float64)
        assert one.mean == pytest.approx(values.mean())
        assert one.std == pytest.approx(values.std())
        assert one.zeros == (values == 0).mean()
        assert one.norm == pytest.approx(np.linalg.norm(values, axis=1).mean())


@pytest.mark.parametrize("chunk", [DIM, 2**19])
def test_constant_and_equal_dimensions_are_warnings(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK_VALUES", chunk)
    clips = clips_of(8)
    for features in clips.values():
        features[:, 3] = features[:, 9] = features[:, 5]
        features[:, 1] = features[:, 7]
        features[:, [0, 11]] = 0.25
        features[:, 2] = 0  # constant in every clip but one
    clips["p07_2"][:, 2] = 1
    clips["p07_2"][119, 7] += 1e-3  # differs in the last frame alone
    found = inspect_store(written(tmp_path / "s", clips))
    assert found.features.constant == (0, 11)
    assert found.features.duplicated == ((3, 5, 9),)
    assert [(one.rule, one.place) for one in found.warnings[:2]] == [("range", "features"), ("duplicate", "features")]


def test_features_of_large_stores_are_read_on_request_only(tmp_path, monkeypatch):
    store = written(tmp_path / "s", clips_of(6))
    assert inspect_store(store).features is not None
    assert inspect_store(store, features=False).features is None
    monkeypatch.setattr("storage.inspection.findings.MOST_READ_BYTES", 1000)
    found = inspect_store(store)
    assert found.features is None
    assert "--features" in dict(found.rows())["values"]
    steps = []
    assert inspect_store(store, features=True, progress=lambda *step: steps.append(step)).features is not None
    assert steps[-1][1:] == (12, 12)


def test_a_store_without_splits_has_one_part(tmp_path):
    with StoreWriter(tmp_path / "s", dim=1, dtype="float16", vocabulary=["a"]) as writer:
        writer.add("x", np.array([[3.0], [4.0]]), transcript=None)
    facts = feature_facts(open_store(tmp_path / "s"))
    assert (facts.values["all"].mean, facts.values["all"].std, facts.shifts) == (3.5, 0.5, {})

"""The feature contract of a model."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from mucon.checkpoint_files import CONTRACT, contract_of
from mucon.identity.contract import FRAMES_OF_A_BLOCK, Contract, Statistics
from mucon.videos import Source, Video
from tests.helpers.factories import VOCABULARY, small_config, small_videos
from tests.helpers.refusals import refused

RANDOM = np.random.default_rng(0)
MEANS = RANDOM.normal(size=6) * 3
TRAINING = [(MEANS + RANDOM.normal(size=(n, 6))).astype(np.float16) for n in (40, 1, FRAMES_OF_A_BLOCK + 3)]
SOURCE = Source(fps=15.0, window=0.5)


def contract() -> Contract:
    videos = [Video.from_arrays(f"v{i}", features) for i, features in enumerate(TRAINING)]
    return Contract.of(videos, VOCABULARY, SOURCE)


def recording(n: int = 50) -> np.ndarray:
    return (MEANS + np.random.default_rng(n).normal(size=(n, 6))).astype(np.float32)


def test_statistics_in_one_pass_are_those_of_all_frames_together():
    frames = np.concatenate(TRAINING).astype(np.float64)
    found = Statistics.of(TRAINING)
    assert found.frames == len(frames)
    for name in ("mean", "std", "min", "max"):
        np.testing.assert_allclose(getattr(found, name), getattr(np, name)(frames, axis=0), rtol=1e-12)


def test_a_contract_survives_json_and_knows_type_times_and_actions():
    found = contract()
    assert Contract.from_dict(json.loads(json.dumps(found.to_dict()))).to_dict() == found.to_dict()
    assert (found.dim, found.dtype, found.fps, found.window, found.stride) == (6, "float16", 15.0, 0.5, None)
    assert found.vocabulary == VOCABULARY


@pytest.mark.parametrize("n", [1, 6, 50])
def test_features_like_those_of_training_raise_no_doubt(n: int):
    assert contract().check(recording(n)) == []
    assert contract().check(TRAINING[0]) == []


@pytest.mark.parametrize(
    ("features", "rule"),
    [
        (recording()[:, :5], "shape"),
        (recording(7).T, "shape"),
        (recording()[0], "shape"),
        (np.zeros((0, 6)), "shape"),
        (np.where(recording() > 3, np.nan, recording()), "range"),
        (np.array([["a"] * 6]), "type"),
    ],
    ids=["width", "transposed", "one frame without time", "no frame", "NaN", "text"],
)
def test_features_that_cannot_be_used_are_refused(features: np.ndarray, rule: str):
    with refused(rule, "clip: features", n=1):
        contract().check(features, "clip")


@pytest.mark.parametrize("change", [lambda x: x * 20, lambda x: (x - MEANS) * 0.02 + MEANS, lambda x: x + 40])
def test_features_of_another_scale_or_place_raise_a_doubt(change):
    (doubt,) = contract().check(change(recording()), "clip")
    assert (doubt.rule, doubt.place) == ("range", "clip: features")


def test_one_dimension_in_other_units_raises_a_doubt():
    features = recording()
    features[:, 4] *= 1000
    (doubt,) = contract().check(features)
    assert (doubt.rule, doubt.value) == ("range", 1)


def test_a_square_array_that_is_transposed_raises_a_doubt():
    wide = MEANS * 40
    training = Video.from_arrays("v", (wide + RANDOM.normal(size=(80, 6))).astype(np.float32))
    square = (wide + RANDOM.normal(size=(6, 6))).astype(np.float32)
    found = Contract.of([training], VOCABULARY, SOURCE)
    assert found.check(square) == []
    assert [doubt.rule for doubt in found.check(square.T)] == ["shape"]
    smooth = np.cumsum(RANDOM.normal(size=(400, 6)), axis=0)
    scaled = ((smooth - smooth.mean(0)) / smooth.std(0)).astype(np.float32)  # the statistics are the same for each axis
    found = Contract.of([Video.from_arrays("v", scaled)], VOCABULARY, SOURCE)
    for square in scaled[:396].reshape(66, 6, 6):
        assert found.check(square) == []
        assert [doubt.rule for doubt in found.check(square.T)] == ["shape"]
    noise = RANDOM.normal(size=(6, 6)).astype(np.float32)
    assert found.check(noise) == found.check(noise.T) == []


def test_dimensions_without_variation_divide_by_nothing():
    still = Contract.of([Video.from_arrays("v", np.ones((4, 6), np.float32))], VOCABULARY, SOURCE)
    with np.errstate(all="raise"):
        assert still.check(np.ones((9, 6))) == []
        assert [doubt.value for doubt in still.check(np.full((9, 6), 2.0))] == [6]


def test_a_finished_training_writes_the_contract_and_earlier_versions_have_one_without_statistics(tmp_path: Path):
    from mucon.training import train

    train(small_config(training__epochs=1), small_videos(3), VOCABULARY, folder=tmp_path, source=SOURCE)
    folder = tmp_path / "checkpoint"
    found = contract_of(folder)
    expected = Statistics.of(video.read() for video in small_videos(3))
    assert found.statistics is not None
    assert found.statistics == expected
    assert (found.dim, found.fps, found.vocabulary) == (5, 15.0, VOCABULARY)

    (folder / CONTRACT).unlink()
    earlier = contract_of(folder)
    assert (earlier.dim, earlier.fps, earlier.vocabulary, earlier.statistics) == (5, 15.0, VOCABULARY, None)
    assert earlier.check(1000 * small_videos(1)[0].read()) == []
    with refused("shape", n=1):
        earlier.check(np.zeros((9, 4)))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"format_version": 9}, "version"),
        ({"dim": "6"}, "damaged"),
        ({"statistics": {"frames": 3}}, "damaged"),
        ({"dim": 7}, "damaged"),
        ({"colour": 7}, "damaged"),
        ({"statistics": {**asdict(Statistics.of(TRAINING)), "mean": ["a"] * 6}}, "damaged"),
        ({"statistics": {**asdict(Statistics.of(TRAINING)), "std": [math.nan] * 6}}, "damaged"),
        ({"fps": 0}, "range"),
        ({"normalisation": "z-score"}, "version"),
    ],
)
def test_a_damaged_contract_is_refused_by_its_file(tmp_path: Path, change: dict[str, object], rule: str):
    (tmp_path / "state.json").write_text('{"format_version": 1, "size": {"dim": 6}}')
    (tmp_path / CONTRACT).write_text(json.dumps({**contract().to_dict(), **change}))
    with refused(rule, CONTRACT, n=1):
        contract_of(tmp_path)

"""Simulated recordings: real transcripts and lengths, features with the numbers that the model states."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.baselines import blind_baseline, nearest_centroid
from mucon.metrics.scores import score
from mucon.segments import Segmentation
from mucon.stores.simulated import Selection, write_simulated
from mucon.stores.sources import read_source
from mucon.synthetic.feature_model import PRESETS, FeatureModel, preset
from mucon.synthetic.features import Simulator, feature_deviations, window_noise
from mucon.synthetic.grammar import blurred
from mucon.videos import videos_of
from storage import open_store
from tests.helpers.oracles_simulated import autocorrelation, between_share, window_correlation
from tests.helpers.refusals import refused

DATA = os.environ.get("MUCON_DATA_DIR")
needs_data = pytest.mark.skipif(DATA is None, reason="MUCON_DATA_DIR is not set")
SMALL = FeatureModel(dim=6, latent=6, window=4, ramp=2, blur=3)


@cache
def long_recordings(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Features and labels of 50 recordings of five actions of 60 to 320 frames, by a preset."""
    random = np.random.default_rng(3)
    simulator = Simulator(preset(name), tuple(f"action {i}" for i in range(20)), seed=2)
    features, labels = [], []
    for i in range(50):
        transcript, lengths = random.permutation(20)[:5].tolist(), random.integers(60, 320, size=5).tolist()
        features.append(simulator.features(f"v{i}", transcript, lengths))
        labels.append(np.repeat(transcript, lengths))
    return features, labels


CALIBRATION = {1: (0.98395, 0.004), 5: (0.851, 0.02), 15: (0.40492, 0.03), 30: (0.02064, 0.03)}
"""Lag -> correlation in the real features, tolerance."""


def test_the_calibrated_preset_has_the_correlations_and_the_variance_between_classes_of_the_real_features() -> None:
    features, labels = long_recordings("breakfast_fv")
    for lag, (real, tolerance) in CALIBRATION.items():
        assert autocorrelation(features, lag) == pytest.approx(real, abs=tolerance), lag
    assert between_share(features, labels) == pytest.approx(0.0986, abs=0.02)
    deviations = np.concatenate(features).std(axis=0)
    assert deviations.min() == pytest.approx(2.6, rel=0.1)
    assert deviations.max() == pytest.approx(7.1, rel=0.1)
    assert np.linalg.norm(np.concatenate(features), axis=1).mean() == pytest.approx(34.3, rel=0.1)


def test_the_clear_preset_differs_in_its_actions_only() -> None:
    model, clear = preset("breakfast_fv"), preset("clear")
    differing = {name for name, value in model.to_dict().items() if clear.to_dict()[name] != value}
    assert differing == {"between"}
    assert between_share(*long_recordings("clear")) > 2 * between_share(*long_recordings("breakfast_fv"))


@settings(max_examples=10, deadline=None)
@given(window=st.integers(1, 30), ramp=st.integers(1, 12), lag=st.integers(0, 45))
def test_slow_noise_has_variance_one_and_the_correlation_of_its_window(window: int, ramp: int, lag: int) -> None:
    noise = window_noise(np.random.default_rng(0), 50, 2500, window, ramp)
    assert noise.shape == (50, 2500)
    assert noise.var(axis=1) == pytest.approx(np.ones(50), abs=0.14)
    assert (noise[0] * noise[lag]).mean() == pytest.approx(window_correlation(window, ramp, lag), abs=0.09)
    assert window_correlation(window, ramp, window + ramp - 1) == 0


def test_an_action_far_from_its_ends_has_its_mean_and_a_border_mixes_two_over_the_blur() -> None:
    model = FeatureModel(dim=5, between=0.999999, variation=0, offset=0, grain=0, blur=11, dtype="float64")
    simulator = Simulator(model, ("a", "b"), seed=1)
    features = simulator.features("v", (0, 1), (40, 40))
    a, b = simulator.means * simulator.deviations + simulator.levels
    expected = blurred(np.repeat([a, b], 40, axis=0), 11)
    assert np.abs(features - expected).max() < 0.05 * np.abs(a - b).max()
    share = ((features - a) @ (b - a)) / ((b - a) @ (b - a))
    assert share[:35] == pytest.approx(np.zeros(35), abs=0.02)
    assert share[45:] == pytest.approx(np.ones(35), abs=0.02)
    assert share[35:45] == pytest.approx(np.arange(1, 11) / 11, abs=0.02)


def test_the_shares_of_the_variance_are_those_of_the_model_for_any_number_of_features() -> None:
    for dim, latent in ((40, 40), (300, 40)):
        model = FeatureModel(dim=dim, latent=latent, between=0.3, variation=0.2, offset=0.25, window=3, ramp=1, blur=1)
        simulator = Simulator(model, tuple("abcdefgh"), seed=4)
        recordings = [simulator.features(f"v{i}", (i % 8, (i + 3) % 8), (120, 120)) for i in range(80)]
        scaled = (np.array(recordings) - simulator.levels) / feature_deviations(model)
        segments = scaled.reshape(80, 2, 120, dim).mean(axis=2)
        assert (scaled**2).mean() == pytest.approx(1, abs=0.06)
        assert (scaled - np.repeat(segments, 120, axis=1)).var() == pytest.approx(0.25, abs=0.02)
        of_actions = np.array([segments.reshape(-1, dim)[_actions(80) == action].mean(axis=0) for action in range(8)])
        assert (of_actions**2).mean() == pytest.approx(0.3 + 0.45 / 20, abs=0.05)


def _actions(n: int) -> np.ndarray:
    return np.array([(i % 8, (i + 3) % 8) for i in range(n)]).ravel()


@settings(max_examples=20, deadline=None)
@given(
    segments=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), min_size=1, max_size=5),
    dim=st.integers(1, 9),
    dtype=st.sampled_from(("float16", "float32", "float64")),
)
def test_features_have_a_row_for_each_frame_and_are_the_same_each_time(
    segments: list[tuple[int, int]], dim: int, dtype: str
) -> None:
    transcript, lengths = zip(*segments, strict=True)
    model = FeatureModel(dim=dim, latent=4, dtype=dtype)
    first = Simulator(model, ("a", "b", "c"), seed=1).features("v", transcript, lengths)
    assert first.shape == (sum(lengths), dim)
    assert first.dtype == dtype
    assert np.isfinite(first).all()
    assert np.array_equal(first, Simulator(model, ("a", "b", "c"), seed=1).features("v", transcript, lengths))
    for other in (
        Simulator(model, ("a", "b", "c"), seed=2).features("v", transcript, lengths),
        Simulator(model, ("a", "b", "c"), seed=1).features("w", transcript, lengths),
    ):
        assert not np.array_equal(first, other)


def test_an_actions_features_hang_on_its_name_and_not_on_its_id() -> None:
    first = Simulator(SMALL, ("a", "b", "c"), seed=1).features("v", (0, 2), (5, 6))
    assert np.array_equal(first, Simulator(SMALL, ("c", "a"), seed=1).features("v", (1, 0), (5, 6)))


def test_values_of_a_model_outside_their_range_are_all_reported_at_once() -> None:
    with refused("range", "feature model: ramp", 30, n=5) as refusal:
        FeatureModel(dim=0, between=0.5, offset=0.6, ramp=30, largest_std=1.0, dtype="int8")
    assert [place.removeprefix("feature model: ") for place in refusal.places] == [
        "dim",
        "ramp",
        " + ".join(("between", "variation", "offset", "grain")),
        "largest_std",
        "dtype",
    ]
    assert "24" in refusal.problems[1].expected
    with refused("range", "feature model: between"):
        FeatureModel(between=float("nan"))


def test_unknown_presets_and_fields_are_refused_with_the_nearest() -> None:
    with refused("unknown", "preset", "breakfast", n=1) as refusal:
        preset("breakfast")
    assert "'breakfast_fv'" in str(refusal.problems[0])
    with refused("unknown", "blurr", "blurr", n=1) as refusal:
        FeatureModel().override("blurr", "3")
    assert "'blur'" in str(refusal.problems[0])
    with refused("type", "feature model: blur", "2.5", n=1):
        FeatureModel().override("blur", "2.5")
    with refused("range", "seed", -1, n=1):
        Simulator(SMALL, ("a",), seed=-1)


@needs_data
def test_the_real_features_have_the_numbers_on_which_the_preset_is_calibrated() -> None:
    folder = Path(DATA or ".") / "breakfast_fv_sample"
    features, labels = [], []
    for path in sorted((folder / "features").glob("*.npy")):
        values = np.load(path)
        seen = values.any(axis=1)
        words = (folder / "groundTruth" / f"{path.stem}.txt").read_text().split()
        features.append(values[seen])
        labels.append(np.array(words)[seen])
    for lag, (real, _) in CALIBRATION.items():
        assert autocorrelation(features, lag) == pytest.approx(real, abs=1e-4)
    assert between_share(features, labels) == pytest.approx(0.0986, abs=1e-4)


@needs_data
def test_simulated_breakfast_is_calibrated_and_neither_trivial_nor_hopeless(tmp_path: Path) -> None:
    source = read_source(Path(DATA or ".") / "breakfast_annotations")
    assert len(source.recordings) == 1712
    assert len(source.vocabulary.actions) == 48
    write_simulated(
        tmp_path / "store", source, PRESETS["breakfast_fv"], preset="", selection=Selection(videos=60, longest=2000)
    )
    store = open_store(tmp_path / "store")
    train, test = videos_of(store, "1", "train"), videos_of(store, "1", "test")
    assert (len(train), len(test)) == (60, 10)
    features = [video.read() for video in train]
    for lag, (real, tolerance) in CALIBRATION.items():
        assert autocorrelation(features, lag) == pytest.approx(real, abs=tolerance), lag
    labels = [np.repeat(video.transcript, video.lengths or ()) for video in train]
    assert between_share(features, labels) == pytest.approx(0.0986, abs=0.02)
    truth = [Segmentation.of(video.transcript, video.lengths or ()) for video in test]
    assert 0.35 < score(truth, nearest_centroid(train, test)).values["mof"] < 0.75
    assert score(truth, blind_baseline(train, test)).values["mof"] < 0.2

"""Made-up recordings have the properties that their configuration specifies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mucon.cli import main
from mucon.stores.made_up import demo_store
from mucon.synthetic.grammar import (
    SyntheticData,
    action_means,
    action_names,
    blurred,
    mean_lengths,
    slow_noise,
    synthesize,
)
from mucon.synthetic.grammar_config import FeatureConfig, GrammarConfig, LengthConfig, SyntheticConfig
from mucon.videos import videos_of, vocabulary_of
from storage import StoreError, open_store
from tests.helpers.refusals import refused


def same(a: SyntheticData, b: SyntheticData) -> bool:
    return (
        [(v.id, v.transcript, v.lengths) for v in a.videos] == [(v.id, v.transcript, v.lengths) for v in b.videos]
        and all(np.array_equal(v.read(), w.read()) for v, w in zip(a.videos, b.videos, strict=True))
        and (a.splits, a.vocabulary, a.activities) == (b.splits, b.vocabulary, b.activities)
    )


def test_a_seed_gives_the_same_recordings_and_another_gives_others() -> None:
    config = SyntheticConfig(n_videos=6)
    assert same(synthesize(config), synthesize(config))
    assert not same(synthesize(config), synthesize(dataclasses.replace(config, seed=2)))


def test_a_longer_set_begins_with_the_recordings_of_a_shorter_one() -> None:
    short, long = synthesize(SyntheticConfig(n_videos=4)), synthesize(SyntheticConfig(n_videos=9))
    for a, b in zip(short.videos, long.videos, strict=False):
        assert (a.transcript, a.lengths) == (b.transcript, b.lengths)
        assert np.array_equal(a.read(), b.read())


def test_features_are_made_when_read_and_the_same_each_time() -> None:
    video = synthesize(SyntheticConfig(n_videos=3)).videos[0]
    first, second = video.read(), video.read()
    assert first is not second
    assert np.array_equal(first, second)
    assert first.shape == (video.n_frames, video.dim) == (sum(video.lengths or ()), 32)
    assert first.dtype == np.float32


def test_every_third_recording_is_for_testing_and_no_other() -> None:
    data = synthesize(SyntheticConfig(n_videos=8))
    assert [video.id[-1] for video in data.part("test")] == ["3", "6"]
    assert [video.id[-1] for video in data.part("train")] == ["1", "2", "4", "5", "7", "8"]


def test_recipes_use_every_action_about_equally_often_and_repeat_no_step() -> None:
    grammar = GrammarConfig(n_actions=12, n_recipes=30, fewest_steps=3, most_steps=7)
    recipes = list(synthesize(SyntheticConfig(grammar=grammar)).recipes.values())
    assert all(len(set(steps)) == len(steps) and 3 <= len(steps) <= 7 for steps in recipes)
    assert {len(steps) for steps in recipes} == {3, 4, 5, 6, 7}
    counts = np.bincount(np.concatenate(recipes), minlength=12)
    assert counts[0] == 0
    assert counts[1:].max() - counts[1:].min() <= 2


@pytest.mark.parametrize("change", ["none", "drop", "swap", "repeat"])
def test_a_recording_departs_from_its_recipe_as_often_as_the_grammar_says(change: str) -> None:
    rate = {kind: 0.3 if kind == change else 0.0 for kind in ("drop", "swap", "repeat")}
    grammar = GrammarConfig(drop=rate["drop"], swap=rate["swap"], repeat=rate["repeat"])
    data = synthesize(SyntheticConfig(grammar=grammar, n_videos=600))
    kinds = {"none": 0, "drop": 0, "swap": 0, "repeat": 0}
    n_steps = dropped = 0
    for video in data.videos:
        steps, recipe = video.transcript[1:-1], data.recipes[data.activities[video.id]]
        assert (video.transcript[0], video.transcript[-1], 0 in steps) == (0, 0, False)
        n_steps += max(len(recipe) - 2, 0)
        dropped += max(len(recipe) - len(steps), 0)
        if steps == recipe:
            kinds["none"] += 1
        elif set(steps) < set(recipe):
            assert list(steps) == [step for step in recipe if step in steps]
            kinds["drop"] += 1
        elif len(steps) == len(recipe):
            assert sum(a != b for a, b in zip(steps, recipe, strict=True)) == 2
            kinds["swap"] += 1
        else:
            assert len(steps) == len(recipe) + 1
            place = next(i for i in range(2, len(steps)) if steps[i] == steps[i - 2])
            assert (*steps[:place], *steps[place + 1 :]) == recipe
            kinds["repeat"] += 1
    assert {kind for kind, count in kinds.items() if count} == {"none", change}
    if change == "drop":
        assert dropped / n_steps == pytest.approx(0.3, abs=0.05)  # of the steps that may be left out
    elif change != "none":
        assert kinds[change] / 600 == pytest.approx(0.3, abs=0.06)


def test_two_steps_stay_when_every_step_would_be_left_out() -> None:
    data = synthesize(SyntheticConfig(grammar=GrammarConfig(drop=1.0), n_videos=30))
    for video in data.videos:
        kept = [step for step in data.recipes[data.activities[video.id]] if step in video.transcript]
        assert len(kept) == 2


def test_recipes_are_equally_common() -> None:
    counts: dict[str, int] = {}
    for name in synthesize(SyntheticConfig(n_videos=1000)).activities.values():
        counts[name] = counts.get(name, 0) + 1
    assert len(counts) == 5
    assert all(150 <= count <= 250 for count in counts.values())


def test_lengths_have_the_means_and_spreads_that_were_asked_for() -> None:
    config = SyntheticConfig(lengths=LengthConfig(shortest=1, longest_mean=200), n_videos=1500)
    means = mean_lengths(config)
    assert means[0] == config.lengths.background_mean
    assert sorted(means[1:]) == pytest.approx(np.geomspace(12, 200, 7))
    frames: dict[int, list[int]] = {action: [] for action in range(8)}
    within, between = [], []
    for video in synthesize(config).videos:
        deviations = np.log(np.array(video.lengths) / means[list(video.transcript)])
        within.append(deviations.var(ddof=1))
        between.append(deviations)
        for action, length in zip(video.transcript, video.lengths or (), strict=True):
            frames[action].append(length)
    for action in range(8):
        assert np.mean(frames[action]) == pytest.approx(means[action], rel=0.03)
    assert np.sqrt(np.mean(within)) == pytest.approx(0.3, abs=0.02)
    assert np.concatenate(between).std() == pytest.approx(np.hypot(0.3, 0.15), abs=0.02)


def test_no_segment_is_shorter_than_the_shortest_length() -> None:
    config = SyntheticConfig(lengths=LengthConfig(shortest_mean=2.0, longest_mean=3.0, shortest=4), n_videos=30)
    lengths = [length for video in synthesize(config).videos for length in video.lengths or ()]
    assert min(lengths) == 4


def test_noise_has_variance_one_from_the_first_frame_on_and_the_memory_asked_for() -> None:
    noise = slow_noise(np.random.default_rng(0), 60, 40_000, 0.7)
    assert noise.var(axis=1) == pytest.approx(np.ones(60), abs=0.04)
    for lag in (1, 2, 5, 10):
        correlation = (noise[lag:] * noise[:-lag]).mean()
        assert correlation == pytest.approx(0.7**lag, abs=0.01)


def test_features_are_the_blurred_means_plus_the_recordings_offset_plus_noise() -> None:
    config = SyntheticConfig(features=FeatureConfig(dim=400, offset=0.5, memory=0.6, blur=5), n_videos=12)
    means = action_means(config)
    assert np.linalg.norm(means, axis=1) == pytest.approx(np.full(8, config.features.separation))
    offsets, correlations = [], []
    for video in synthesize(config).videos:
        labels = np.repeat(video.transcript, video.lengths or ())
        rest = video.read() - blurred(means[labels], 5)
        offset = rest.mean(axis=0)
        noise = rest - offset
        offsets.append(offset.var() - 4 / video.n_frames)  # the mean of noise with memory 0.6 varies by 4 / T
        correlations.append((noise[1:] * noise[:-1]).mean() / (noise**2).mean())
        assert rest.var() == pytest.approx(1 + 0.25, abs=0.1)
    assert np.mean(offsets) == pytest.approx(0.25, abs=0.03)
    assert np.mean(correlations) == pytest.approx(0.6, abs=0.03)


def test_blur_mixes_two_actions_at_their_border_and_nowhere_else() -> None:
    step = np.repeat([[0.0], [1.0]], 10, axis=0)
    assert np.array_equal(blurred(step, 1), step)
    assert blurred(step, 5).ravel() == pytest.approx([0] * 8 + [0.2, 0.4, 0.6, 0.8] + [1] * 8)
    assert blurred(step, 4).ravel() == pytest.approx([0] * 8 + [0.25, 0.5, 0.75] + [1] * 9)


def test_action_names_are_distinct_for_any_number_of_actions() -> None:
    for n_actions in (3, 13, 14, 50):
        assert len(set(action_names(n_actions))) == n_actions


def test_values_outside_their_range_are_all_reported_at_once() -> None:
    with refused("range", "grammar.most_steps", 5, n=2) as refusal:
        GrammarConfig(n_actions=4, drop=1.5)
    assert (refusal.places[1], refusal.values[1]) == ("synthetic.grammar.drop", 1.5)
    wrong: dict[str, tuple[object, Callable[[], object]]] = {
        "synthetic.lengths.longest_mean": (60.0, lambda: LengthConfig(shortest_mean=80.0)),
        "synthetic.features.memory": (1.0, lambda: FeatureConfig(memory=1.0)),
        "synthetic.n_videos": (2, lambda: SyntheticConfig(n_videos=2)),
        "synthetic.seed": (-1, lambda: SyntheticConfig(seed=-1)),
        "synthetic.test_every": (1, lambda: SyntheticConfig(test_every=1)),
    }
    for place, (value, construct) in wrong.items():
        with refused("range", place, value, n=1):
            construct()


def test_the_demos_store_holds_the_recordings_bit_by_bit(tmp_path: Path) -> None:
    store = open_store(demo_store(tmp_path / "demo", seed=3))
    data = synthesize(SyntheticConfig(seed=3))
    assert vocabulary_of(store) == data.vocabulary
    for part in ("train", "test"):
        stored = videos_of(store, "1", part)
        assert [(v.id, v.transcript, v.lengths) for v in stored] == [
            (v.id, v.transcript, v.lengths) for v in data.part(part)
        ]
        assert all(np.array_equal(v.read(), w.read()) for v, w in zip(stored, data.part(part), strict=True))
    assert {id: store.record(id).activity for id in store.ids} == data.activities
    assert store.manifest.metadata["synthetic"]["seed"] == 3


def test_the_demos_store_is_not_written_over_another(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="demo"):
        demo_store(tmp_path / "demo")
    assert [path.name for path in tmp_path.rglob("*")] == ["demo", "notes.txt"]


def test_the_command_makes_a_store_of_the_size_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small"
    options = ["--seed", "5", "--videos", "9", "--actions", "4", "--dim", "6", "--recipes", "2"]
    assert main(["store", "synthesize", str(path), *options]) == 0
    assert "9 recordings" in capsys.readouterr().out
    store = open_store(path)
    assert (len(store.ids), store.manifest.dim, len(store.manifest.vocabulary)) == (9, 6, 4)
    assert set(store.manifest.splits) >= {"1"}
    assert len(store.split("1", "test")) == 3


def test_a_wrong_option_gets_one_line_and_exit_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none"
    assert main(["store", "synthesize", str(path), "--videos", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "n_videos" in error
    assert {"1", "(3),"} <= set(error.split())
    assert not path.exists()

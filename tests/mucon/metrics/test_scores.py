from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.metrics.catalogue import metric_of
from mucon.metrics.frames import FrameCounts, correct_frames
from mucon.metrics.scores import METRICS, score
from mucon.segments import Segmentation
from tests.helpers import oracles_metrics as oracle
from tests.helpers.refusals import refused

W = "_without_background"


def random_labels(rng: np.random.Generator, T: int, N: int) -> np.ndarray:
    labels = np.repeat(rng.integers(0, N, T), rng.integers(1, 9, T))[:T]
    return labels if rng.random() < 0.95 else np.zeros(T, np.int64)


@st.composite
def corpora(draw):
    """Pairs of frame labels and background ids."""
    labels = st.integers(0, 3)
    sizes = draw(st.lists(st.integers(0, 25), min_size=1, max_size=4))
    pairs = [tuple(draw(st.lists(labels, min_size=T, max_size=T)) for _ in range(2)) for T in sizes]
    return pairs, draw(st.sets(labels, max_size=2))


def of(labels) -> Segmentation:
    return Segmentation.from_frame_labels(np.array(labels, dtype=np.int64))


def scored(pairs, background):
    return score([of(target) for target, _ in pairs], [of(prediction) for _, prediction in pairs], background)


def assert_equal(found, expected, name):
    assert (found is None) == (expected is None), name
    assert found is None or found == pytest.approx(expected, rel=1e-12), name


def assert_by_definition(pairs, background):
    scores = scored(pairs, background)
    for (target, prediction), video in zip(pairs, scores.per_video, strict=True):
        for suffix, ignored in (("", ()), (W, background)):
            assert_equal(video["mof" + suffix], oracle.mof(target, prediction, ignored), "mof" + suffix)
            own = f"mof{suffix}_per_video"
            assert_equal(video[own], oracle.mof(target, prediction, ignored), own)
            assert_equal(video["edit" + suffix], oracle.edit(target, prediction, ignored), "edit" + suffix)
            for name, over in (("iod", "detection"), ("iou", "union")):
                expected = oracle.best_of_class(target, prediction, ignored, over)
                assert_equal(video[name + suffix], expected, name + suffix)
                of_classes = oracle.by_class(target, prediction, ignored, over)
                assert_equal(video[f"{name}_by_class{suffix}"], of_classes, f"{name}_by_class{suffix}")
            for percent in (10, 25, 50):
                counts = oracle.f1_counts(target, prediction, percent / 100, ignored)
                names = [f"{kind}_at_{percent}{suffix}" for kind in ("tp", "fp", "fn")]
                assert tuple(video[name] for name in names) == counts
                f1 = 2 * counts[0] / (2 * counts[0] + counts[1] + counts[2]) if sum(counts) else None
                assert_equal(video[f"f1_at_{percent}{suffix}"], f1, "f1")


def test_random_recordings_score_as_the_definitions_say():
    rng = np.random.default_rng(0)
    for i in range(120):
        T, N = int(rng.integers(0, 90)), int(rng.integers(1, 6))
        pairs = [(random_labels(rng, T, N).tolist(), random_labels(rng, T, N).tolist()) for _ in range(2)]
        assert_by_definition(pairs, [(), (0,), (0, 2)][i % 3])


@settings(max_examples=80, deadline=None)
@given(corpora())
def test_any_recordings_score_as_the_definitions_say(corpus):
    assert_by_definition(*corpus)


@settings(max_examples=80, deadline=None)
@given(corpora())
def test_every_value_is_a_fraction_and_every_undefined_value_is_counted(corpus):
    pairs, background = corpus
    scores = scored(pairs, background)
    assert set(scores.undefined) == set(METRICS)
    for name in METRICS:
        missing = [video[name] is None for video in scores.per_video]
        assert scores.undefined[name] == sum(missing)
        assert (name in scores.values) == (not all(missing))
        if metric_of(name).unit != "number":
            assert all(0 <= video[name] <= 1 for video in scores.per_video if video[name] is not None)
            assert 0 <= scores.values.get(name, 0) <= 1


@settings(max_examples=50, deadline=None)
@given(corpora())
def test_a_perfect_prediction_scores_one_wherever_it_is_defined(corpus):
    pairs, background = corpus
    scores = scored([(target, target) for target, _ in pairs], background)
    assert scores.values.pop("log_length_error", 0) == 0
    assert set(scores.values.values()) <= {1.0}


@settings(max_examples=50, deadline=None)
@given(corpora(), st.permutations(range(4)))
def test_new_names_for_the_actions_change_nothing(corpus, names):
    pairs, background = corpus
    renamed = [tuple([names[label] for label in side] for side in pair) for pair in pairs]
    assert scored(renamed, {names[label] for label in background}) == scored(pairs, background)


@settings(max_examples=50, deadline=None)
@given(corpora())
def test_stretching_every_frame_changes_nothing(corpus):
    pairs, background = corpus
    stretched = [tuple(np.repeat(side, 3).tolist() for side in pair) for pair in pairs]
    before, after = scored(pairs, background), scored(stretched, background)
    assert after.values == pytest.approx(before.values, rel=1e-12)
    assert after.undefined == before.undefined


@settings(max_examples=50, deadline=None)
@given(corpora())
def test_exchanging_the_sides_keeps_what_is_symmetric(corpus):
    pairs, background = corpus
    there, back = scored(pairs, background), scored([pair[::-1] for pair in pairs], background)
    for a, b in zip(there.per_video, back.per_video, strict=True):
        for name in ("mof", "edit", "edit" + W):
            assert a[name] == b[name]


@settings(max_examples=50, deadline=None)
@given(corpora())
def test_without_a_background_class_both_forms_are_equal(corpus):
    values = scored(corpus[0], ()).values
    for name in METRICS:
        if name.endswith(W):
            assert values.get(name) == values.get(name.removesuffix(W))


def test_mof_is_pooled_over_frames_and_edit_is_averaged_over_recordings():
    pairs = [([1] * 90, [1] * 90), ([1, 2] * 5, [3] * 10)]
    values = scored(pairs, ()).values
    assert values["mof"] == 0.9
    assert values["edit"] == 0.5
    assert values["f1_at_50"] == pytest.approx(2 * 1 / (2 * 1 + 1 + 10))


def test_only_background_is_counted_as_undefined_and_is_no_zero():
    target, prediction = [0] * 6, [0] * 6
    scores = scored([(target, prediction)], (0,))
    undefined = {name for name in METRICS if W in name} | {"length_correlation"}
    assert {name for name, n in scores.undefined.items() if n} == undefined
    assert set(scores.values) == set(METRICS) - undefined
    both = scored([(target, prediction), ([0, 1, 1], [0, 0, 1])], (0,))
    assert both.values["mof" + W] == 0.5
    assert both.values["edit" + W] == 1.0
    assert both.undefined["edit" + W] == 1


def test_a_prediction_of_only_background_scores_zero():
    scores = scored([([0, 1, 2], [0, 0, 0])], (0,))
    for name in METRICS:
        if name.endswith(W):
            assert scores.values[name] == 0.0
            assert scores.undefined[name] == 0


def test_a_target_of_only_background_with_a_wrong_prediction_has_false_positives():
    scores = scored([([0, 0, 0], [0, 1, 0])], (0,))
    assert scores.per_video[0]["fp_at_50" + W] == 1
    assert scores.values["f1_at_50" + W] == 0.0
    assert scores.values["edit" + W] == 0.0
    assert "iod" + W not in scores.values
    assert "mof" + W not in scores.values


def test_repetitions_and_empty_segments_count_only_in_the_matching_score():
    target = Segmentation.of([1, 1, 2], [2, 2, 4])
    prediction = Segmentation.of([1, 3, 2], [4, 0, 4])
    values = score([target], [prediction]).values
    assert values.pop("matching_score") == pytest.approx(2 / 3)
    assert values.pop("log_length_error") == pytest.approx(np.log(2) / 2)
    assert set(values.values()) == {1.0}


def test_no_recording_at_all_has_no_values():
    scores = score([], [])
    assert scores.values == {}
    assert set(scores.undefined.values()) == {0}


def test_recordings_that_do_not_pair_are_refused_with_both_numbers():
    with refused("shape", "number of predictions", 1, n=1) as refusal:
        score([of([1]), of([1])], [of([1])])
    assert "2" in refusal.problems[0].expected
    with refused("shape", "prediction 2", 3, n=2) as refusal:
        score([of([1, 1]), of([1]), of([1])], [of([1]), of([1]), of([1, 2, 2])])
    assert refusal.places == ["prediction 0", "prediction 2"]
    assert "1 frame" in refusal.problems[1].expected


def test_frames_whose_target_is_background_are_left_out_and_their_prediction_does_not_matter():
    targets = np.array([0, 0, 1, 2])
    assert correct_frames(targets, np.array([0, 5, 1, 0]), ignored=(0,)) == FrameCounts(1, 2)
    assert correct_frames(targets, np.array([7, 7, 1, 0]), ignored=(0,)) == FrameCounts(1, 2)


def test_the_mean_over_classes_pools_frames_and_counts_rare_actions_as_much_as_frequent_ones() -> None:
    targets = [Segmentation.of([0, 1], [8, 2]), Segmentation.of([0, 2], [6, 4])]
    predictions = [Segmentation.of([0], [10]), Segmentation.of([0, 2], [8, 2])]
    found = score(targets, predictions, background_ids=(0,))
    assert found.values["moc"] == pytest.approx((14 / 14 + 0 / 2 + 2 / 4) / 3)
    assert found.values["moc_without_background"] == pytest.approx((0 / 2 + 2 / 4) / 2)
    assert [video["moc"] for video in found.per_video] == [pytest.approx(0.5), pytest.approx((6 / 6 + 2 / 4) / 2)]


def test_two_videos_by_hand_show_what_the_conventions_count():
    pairs = [([0, 0, 1, 1, 0, 0, 0, 0], [0, 1, 1, 1, 0, 0, 2, 2]), ([1, 1], [1, 0])]
    values = scored(pairs, {0}).values
    assert values["mof"] == pytest.approx(6 / 10)  # pooled over the frames
    assert values["mof_per_video"] == pytest.approx((5 / 8 + 1 / 2) / 2)  # each video has the same weight
    assert values["mof_without_background"] == pytest.approx(3 / 4)
    assert values["mof_without_background_per_video"] == pytest.approx((2 / 2 + 1 / 2) / 2)
    assert values["iou_by_class"] == pytest.approx(((3 / 6 + 2 / 3) / 2 + 1 / 2) / 2)  # 2 is not in the truth
    assert values["iod_by_class"] == pytest.approx(((3 / 3 + 2 / 3) / 2 + 1 / 1) / 2)
    assert values["iou_by_class_without_background"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert values["iod_by_class_without_background"] == pytest.approx((2 / 3 + 1 / 1) / 2)


def test_by_class_an_action_that_is_not_predicted_counts_as_zero():
    values = scored([([0, 1], [0, 0])], ()).values
    assert (values["iod_by_class"], values["iou_by_class"]) == (0.25, 0.25)

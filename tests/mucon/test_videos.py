"""A recording: what it accepts, how its features reach the device, and what training checks before the first step."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.videos import (
    Video,
    check_same_data,
    check_training_videos,
    videos_of,
    vocabulary_of,
    warn_of_long_segments,
    warn_of_short_videos,
)
from mucon.vocabulary import Vocabulary
from storage import StoreError, open_store
from tests.helpers.factories import VOCABULARY, make_video, small_videos, write_store
from tests.helpers.refusals import refused

EXACT = np.array([[1.0, -2.0], [0.5, 3.0], [0.25, 64.0]])


@pytest.mark.parametrize(
    "array",
    [
        EXACT,
        EXACT.astype(np.float32),
        EXACT.astype(np.float16),
        EXACT.astype(">f8"),
        EXACT.astype(">f4"),
        np.asfortranarray(EXACT),
        np.repeat(EXACT, 2, axis=1)[:, ::2],
        EXACT[::-1][::-1],
        EXACT.tolist(),
        np.lib.stride_tricks.as_strided(EXACT, writeable=False),
    ],
    ids=["f8", "f4", "f2", "big-endian f8", "big-endian f4", "Fortran", "strided", "reversed twice", "list", "frozen"],
)
def test_features_of_any_layout_become_the_same_float32(array):
    features = Video.from_arrays("v", array).features()
    assert features.dtype == torch.float32
    assert features.tolist() == EXACT.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int64, ">i4"])
def test_whole_numbers_become_float32(dtype):
    whole = np.array([[1, 2], [3, 100]])
    assert Video.from_arrays("v", whole.astype(dtype)).features().tolist() == whole.tolist()


def test_features_on_the_device_are_a_copy_where_the_array_is_read_only():
    array = EXACT.astype(np.float32)
    array.flags.writeable = False
    video = Video.from_arrays("v", array)
    video.features().zero_()
    assert video.read().tolist() == EXACT.tolist()


@pytest.mark.parametrize(
    ("array", "rule", "value", "words"),
    [
        (np.zeros(3), "shape", [3], "[T, D]"),
        (np.zeros((0, 4)), "shape", [0, 4], "T >= 1"),
        (np.zeros((4, 0)), "shape", [4, 0], "D >= 1"),
        (np.zeros((2, 3, 4)), "shape", [2, 3, 4], "[T, D]"),
        (np.array([["a"]]), "type", "<U1", "numbers"),
        (np.array([[True]]), "type", "bool", "numbers"),
        (np.array([[1 + 2j]]), "type", "complex128", "numbers"),
        (np.array([[None]], dtype=object), "type", "object", "numbers"),
        ([[1.0], [np.nan], [np.inf]], "range", 2, "frame 1"),
        ([[1.0], [1e39]], "range", 1, "frame 1"),
    ],
)
def test_features_that_are_not_a_finite_array_are_refused(array, rule, value, words):
    with refused(rule, "clip: features", value, n=1) as refusal:
        Video.from_arrays("clip", array)
    assert words in str(refusal.problems[0])


@pytest.mark.parametrize(("transcript", "lengths"), [((0, 1), (3,)), ((0, 1), (1, 1)), ((0, 1), (4, -1))])
def test_lengths_that_do_not_fit_the_recording_are_refused(transcript, lengths):
    with refused("mismatch", "clip: lengths", list(lengths), n=1) as refusal:
        Video.from_arrays("clip", EXACT, transcript, lengths)
    assert ["2 lengths" in refusal.problems[0].expected, "3" in refusal.problems[0].expected] == [True, True]


def test_true_labels_are_known_where_the_lengths_are():
    video = Video.from_arrays("v", EXACT, (1, 0), (2, 1))
    assert video.frame_labels().tolist() == [1, 1, 0]
    assert Video.from_arrays("v", EXACT, (1, 0)).frame_labels() is None
    assert Video.from_arrays("v", EXACT, (1, 0)).segmentation is None
    assert not video.labelled


def test_a_store_gives_the_videos_that_were_written(tmp_path: Path):
    store = open_store(write_store(tmp_path / "store", n_train=3, n_test=2))
    assert vocabulary_of(store) == VOCABULARY
    written = {video.id: video for video in small_videos(5)}
    train, test = videos_of(store, "1", "train"), videos_of(store, "1", "test")
    assert [video.id for video in train + test] == sorted(written)
    for video in train + test:
        original = written[video.id]
        assert (video.n_frames, video.dim) == (original.n_frames, original.dim)
        assert (video.transcript, video.lengths) == (original.transcript, original.lengths)
        assert torch.equal(video.features(), original.features())


def test_a_split_that_the_store_does_not_have_is_refused(tmp_path: Path):
    store = open_store(write_store(tmp_path / "store", n_train=1, n_test=1))
    with pytest.raises(StoreError, match="7"):
        videos_of(store, "7", "train")


def test_good_training_videos_give_their_number_of_features():
    assert check_training_videos(small_videos(3, dim=6), VOCABULARY) == 6


def test_everything_wrong_with_training_videos_is_reported_together():
    good = make_video("good", (0, 1), (3, 3))
    problems = [
        good,
        good,
        Video.from_arrays("silent", np.zeros((3, 5))),
        Video.from_arrays("foreign", np.zeros((3, 5)), (0, 9, -1)),
        Video.from_arrays("crowded", np.zeros((2, 5)), (0, 1, 2)),
        Video.from_arrays("wide", np.zeros((3, 7)), (0,)),
    ]
    with refused("duplicate", "good", "good", n=5) as refusal:
        check_training_videos(problems, VOCABULARY)
    assert refusal.rules == ["duplicate", "missing", "range", "mismatch", "mismatch"]
    assert refusal.places == [
        "good",
        "silent: transcript",
        "foreign: transcript",
        "crowded: transcript",
        "wide: features",
    ]
    assert refusal.values == ["good", None, [-1, 9], 3, 7]


def test_training_without_videos_is_refused():
    with refused("missing", "training videos", n=1):
        check_training_videos([], VOCABULARY)


def test_a_model_is_refused_on_data_of_another_kind():
    check_same_data(VOCABULARY, 5, VOCABULARY, 5)
    with refused("mismatch", "features", 6, n=2) as refusal:
        check_same_data(VOCABULARY, 5, Vocabulary(("rest", "pour", "fly", "drink")), 6)
    assert "5" in refusal.problems[0].expected
    assert (refusal.places[1], refusal.values[1]) == ("vocabulary", ["fly", "stir"])
    with refused("mismatch", "vocabulary", [], n=1):
        check_same_data(VOCABULARY, 5, Vocabulary(VOCABULARY.actions[::-1]), 5)


@pytest.mark.parametrize(("n_frames", "n"), [(80, 0), (81, 1)])
def test_segments_of_more_than_four_receptive_fields_get_a_warning(n_frames, n):
    videos = [make_video("long", (0, 1), (n_frames - 1, 1)), make_video("short", (0,), (40,))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_long_segments(videos, receptive_field=10)
    assert [(one.message.problem.place, one.message.problem.value) for one in caught] == [("backbone.n_layers", 10)] * n


@pytest.mark.parametrize(("transcript", "lengths", "n"), [((0,), (3,), 1), ((0, 1, 2), (1, 1, 1), 2), ((0,), (4,), 0)])
def test_recordings_with_few_latent_frames_get_a_warning(transcript, lengths, n):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_short_videos([make_video("clip", transcript, lengths)] * 2, pooling=4)
    assert len(caught) == n
    for warning in caught:
        problem = warning.message.problem
        assert (problem.rule, problem.place, problem.value) == ("mismatch", "backbone.pool_after", 2)
        assert "'clip'" in problem.message

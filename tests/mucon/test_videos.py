"""A recording: what it accepts, how its features reach the device, and what training checks before the first step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.errors import InputError
from mucon.videos import Video, check_same_data, check_training_videos, videos_of, vocabulary_of
from mucon.vocabulary import Vocabulary
from storage import StoreError, open_store
from tests.helpers.factories import VOCABULARY, make_video, small_videos, write_store

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
    ("array", "said"),
    [
        (np.zeros(3), r"\[T, D\] .* 'clip' are float64 \[3\]"),
        (np.zeros((0, 4)), r"T >= 1 .* \[0, 4\]"),
        (np.zeros((4, 0)), r"D >= 1.* \[4, 0\]"),
        (np.zeros((2, 3, 4)), r"\[2, 3, 4\]"),
        (np.array([["a"]]), "one row per frame"),
        (np.array([[True]]), "bool"),
        (np.array([[1 + 2j]]), "complex128"),
        (np.array([[None]], dtype=object), "object"),
        ([[1.0], [np.nan], [np.inf]], r"'clip' are NaN, infinite or too large in 2 frames \(first 1\)"),
        ([[1.0], [1e39]], r"too large in 1 frames \(first 1\)"),
    ],
)
def test_features_that_are_no_finite_array_are_refused(array, said):
    with pytest.raises(InputError, match=said):
        Video.from_arrays("clip", array)


@pytest.mark.parametrize(
    ("transcript", "lengths", "said"),
    [
        ((0, 1), (3,), "for 2 segments and 3 frames"),
        ((0, 1), (1, 1), r"\(sum 2\)"),
        ((0, 1), (4, -1), r"\[4, -1\]"),
    ],
)
def test_lengths_that_do_not_fit_the_recording_are_refused(transcript, lengths, said):
    with pytest.raises(InputError, match=f"lengths .* 'clip' .*{said}"):
        Video.from_arrays("clip", EXACT, transcript, lengths)


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


def test_everything_wrong_with_training_videos_is_told_together():
    good = make_video("good", (0, 1), (3, 3))
    problems = [
        good,
        good,
        Video.from_arrays("silent", np.zeros((3, 5))),
        Video.from_arrays("foreign", np.zeros((3, 5)), (0, 9, -1)),
        Video.from_arrays("crowded", np.zeros((2, 5)), (0, 1, 2)),
        Video.from_arrays("wide", np.zeros((3, 7)), (0,)),
    ]
    with pytest.raises(InputError) as caught:
        check_training_videos(problems, VOCABULARY)
    said = caught.value.problems
    expected = (
        "'good' stands twice",
        "'silent' has none",
        "'foreign' has [-1, 9]",
        "'crowded' has 3 seg",
        "'wide' has 7",
    )
    assert len(said) == len(expected)
    for words, line in zip(expected, said, strict=True):
        assert words in line


def test_training_without_videos_is_refused():
    with pytest.raises(InputError, match="at least one video"):
        check_training_videos([], VOCABULARY)


def test_a_model_is_refused_on_data_of_another_kind():
    check_same_data(VOCABULARY, 5, VOCABULARY, 5)
    with pytest.raises(InputError) as caught:
        check_same_data(VOCABULARY, 5, Vocabulary(("rest", "pour", "fly", "drink")), 6)
    assert "5 features per frame, the store has 6" in caught.value.problems[0]
    assert "fly, stir" in caught.value.problems[1]
    with pytest.raises(InputError, match="none; their order counts too"):
        check_same_data(VOCABULARY, 5, Vocabulary(VOCABULARY.actions[::-1]), 5)

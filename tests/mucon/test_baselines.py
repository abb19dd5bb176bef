from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.baselines import (
    alignment_baseline,
    blind_baseline,
    equal_lengths,
    most_frequent_action,
    most_frequent_action_baseline,
    nearest_centroid,
    pooled_truth,
    pooling_ceiling,
    transcript_prior,
)
from mucon.metrics.scores import score
from mucon.segments import Segmentation
from mucon.videos import Video
from tests.helpers.refusals import refused

DATA = os.environ.get("MUCON_DATA_DIR")
needs_data = pytest.mark.skipif(DATA is None, reason="MUCON_DATA_DIR is not set")


@dataclass(frozen=True)
class Recorded:
    """A recording of the raw folders, read when asked."""

    id: str
    n_frames: int
    transcript: tuple[int, ...]
    lengths: tuple[int, ...]
    read: Callable[[], np.ndarray]


@cache
def recordings(data_set: str, part: str) -> list[Recorded]:
    folder = Path(DATA or ".") / data_set
    names = [line.split()[1] for line in (folder / "mapping.txt").read_text().splitlines() if line.strip()]
    result = []
    for line in (folder / "splits" / f"{part}.split1.bundle").read_text().split():
        name = line.removesuffix(".txt")
        labels = [names.index(word) for word in (folder / "groundTruth" / f"{name}.txt").read_text().split()]
        truth = Segmentation.from_frame_labels(labels)
        path = folder / "features" / f"{name}.npy"
        actions, lengths = tuple(truth.transcript.tolist()), tuple(truth.lengths.tolist())
        result.append(Recorded(name, len(labels), actions, lengths, lambda path=path: np.load(path)))
    return result


def truths(videos) -> list[Segmentation]:
    return [Segmentation.of(video.transcript, video.lengths) for video in videos]


def mof(videos, predictions) -> float:
    return score(truths(videos), predictions).values["mof"]


@needs_data
@pytest.mark.parametrize(("data_set", "share"), [("tug", 0.557), ("hapt", 0.338)])
def test_the_transcript_prior_with_equal_lengths_has_the_known_accuracy(data_set, share):
    train, test = recordings(data_set, "train"), recordings(data_set, "test")
    assert mof(test, blind_baseline(train, test)) == pytest.approx(share, abs=0.0005)


@needs_data
@pytest.mark.parametrize(("data_set", "share"), [("tug", 0.630), ("hapt", 0.351)])
def test_the_true_transcript_with_equal_lengths_has_the_known_accuracy(data_set, share):
    test = recordings(data_set, "test")
    assert mof(test, alignment_baseline(test)) == pytest.approx(share, abs=0.0005)


@needs_data
@pytest.mark.parametrize(("data_set", "share"), [("tug", 0.435), ("hapt", 0.187)])
def test_the_most_frequent_action_has_the_known_share(data_set, share):
    train, test = recordings(data_set, "train"), recordings(data_set, "test")
    assert mof(test, most_frequent_action_baseline(train, test)) == pytest.approx(share, abs=0.0005)


@needs_data
@pytest.mark.parametrize(("data_set", "share"), [("tug", 0.703), ("hapt", 0.603)])
def test_the_nearest_centroid_has_the_known_accuracy(data_set, share):
    train, test = recordings(data_set, "train"), recordings(data_set, "test")
    assert mof(test, nearest_centroid(train, test)) == pytest.approx(share, abs=0.0005)


@needs_data
@pytest.mark.parametrize(
    ("data_set", "factor", "share"),
    [("tug", 16, 0.870), ("tug", 8, 0.940), ("tug", 4, 0.969), ("tug", 2, 0.984), ("hapt", 16, 0.967)],
)
def test_the_pooling_ceiling_has_the_known_height(data_set, factor, share):
    test = recordings(data_set, "test")
    assert mof(test, pooling_ceiling(test, factor)) == pytest.approx(share, abs=0.0005)


def video(transcript, lengths, features=None, n_frames=None) -> Video:
    features = np.zeros((n_frames or sum(lengths), 2)) if features is None else features
    return Video.from_arrays("clip", features, transcript, lengths)


def test_the_most_frequent_transcript_wins_and_the_lowest_ids_win_a_tie():
    assert transcript_prior([(3, 1), (0, 2), (3, 1)]) == (3, 1)
    assert transcript_prior([(3, 1), (0, 2), (0, 1, 5), (0, 1)]) == (0, 1)
    assert transcript_prior([np.array([4, 2])]) == (4, 2)


def test_the_blind_baseline_sees_no_feature_and_no_length_of_the_test_recordings():
    train = [video((0, 1), (9, 1)), video((0, 1), None, n_frames=5), video((2,), (4,))]

    def fail() -> np.ndarray:
        raise AssertionError("a blind baseline reads nothing")

    test = [Video("a", 7, 2, (2,), None, fail), Video("b", 1, 2, (), None, fail)]
    first, short = blind_baseline(train, test)
    assert (first.transcript.tolist(), first.lengths.tolist()) == ([0, 1], [4, 3])
    assert (short.transcript.tolist(), short.lengths.tolist()) == ([0], [1])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.integers(0, 60))
def test_equal_lengths_differ_by_at_most_a_frame(transcript, extra):
    segmentation = equal_lengths(transcript, len(transcript) + extra)
    assert segmentation.n_frames == len(transcript) + extra
    assert np.ptp(segmentation.lengths) <= 1
    assert segmentation.transcript.tolist() == transcript


def test_a_transcript_that_does_not_fit_is_refused():
    with refused("mismatch", "transcript", 3, n=1) as refusal:
        equal_lengths((0, 1, 2), 2)
    assert "2" in refusal.problems[0].expected
    with refused("missing", "transcript", n=1):
        equal_lengths((), 4)
    found = alignment_baseline([video((), None, n_frames=4), video((0, 1, 2), None, n_frames=2), video((1,), (3,))])
    assert [one and one.lengths.tolist() for one in found] == [None, None, [3]]


def test_the_most_frequent_action_is_counted_in_frames_and_not_in_segments():
    videos = [video((1, 2, 1), (2, 9, 2)), video((1,), (3,))]
    assert most_frequent_action(videos) == 2
    assert most_frequent_action([video((1, 0), (4, 4))]) == 0
    (prediction,) = most_frequent_action_baseline(videos, [video((), None, n_frames=6)])
    assert (prediction.transcript.tolist(), prediction.lengths.tolist()) == ([2], [6])


def test_the_nearest_centroid_is_the_one_found_frame_by_frame():
    rng = np.random.default_rng(0)
    train = [
        video((4, 0, 4, 2), (5, 0, 7, 9), rng.normal(size=(21, 3))),
        video((2, 4), (3, 4), rng.normal(size=(7, 3))),
    ]
    test = [video((), None, rng.normal(size=(40, 3)).astype(np.float16))]
    frames = np.concatenate([v.read() for v in train])
    labels = np.concatenate([v.frame_labels() for v in train])
    means = {action: frames[labels == action].mean(axis=0) for action in (2, 4)}
    expected = [min(means, key=lambda a: np.square(means[a] - x).sum()) for x in test[0].read().astype(float)]
    (prediction,) = nearest_centroid(train, test)
    assert prediction.to_frame_labels().tolist() == expected


def test_features_far_from_the_origin_do_not_confuse_the_nearest_centroid():
    rng = np.random.default_rng(1)
    offset = np.float64(1e7)
    features = np.concatenate([rng.normal(size=(20_000, 2)), rng.normal(size=(300, 2)) + 9.0]) + offset
    recording = video((0, 1), (20_000, 300), features)
    assert mof([recording], nearest_centroid([recording], [recording])) > 0.999


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=8),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_no_labels_of_the_latent_frames_are_better_than_the_pooled_truth(pairs, factor):
    truth = Segmentation.of([a for a, _ in pairs], [length for _, length in pairs])
    labels = truth.to_frame_labels()
    T = len(labels)
    n_latent = max(1, T // factor)
    right = 0
    for j in range(n_latent):
        covered = [labels[t] for t in range(T) if t * n_latent // T == j]
        right += max(covered.count(label) for label in covered)
    assert (pooled_truth(truth, factor).to_frame_labels() == labels).sum() == right
    assert factor > 1 or right == T


def test_recordings_without_lengths_are_named_all_at_once():
    labelled = video((1,), (3,))
    unknown = [Video(name, 3, 2, (1,), None, labelled.read) for name in ("b", "c")]
    for call in (
        lambda: most_frequent_action([labelled, *unknown]),
        lambda: nearest_centroid([labelled, *unknown], [labelled]),
        lambda: pooling_ceiling([labelled, *unknown], 2),
    ):
        with refused("missing", "c: lengths", n=2) as refusal:
            call()
        assert refusal.places == ["b: lengths", "c: lengths"]


def test_baselines_without_training_recordings_are_refused():
    with refused("missing", "training recordings", n=1):
        transcript_prior([])
    with refused("missing", "recordings", n=1):
        most_frequent_action([])

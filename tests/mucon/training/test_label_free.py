"""Scores that need no frame label: by hand on few frames, and in a training, whose bits they do not change."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mucon.training import EpochReport
from mucon.training.label_free import label_free_scores
from mucon.training.progress import drawn
from sweeps.service.trials.trial import TrialSettings
from tests.helpers.factories import make_video, small_videos
from tests.mucon.training.test_loop import CONFIG, digest, train_small

PREFIX = "label_free."
POSTERIORS = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.1, 0.9]])
"""Of four frames; the best alignment of [0, 1] is 3 and 1 frames."""


def scores_of(posteriors: np.ndarray, transcript: list[int], lengths: list[float]) -> dict[str, float]:
    video = dataclasses.replace(make_video("v", transcript, [1] * len(transcript)), lengths=None)
    seen = np.log(posteriors).astype(np.float32), np.array(lengths)
    found = label_free_scores([video], lambda _: seen, posteriors.shape[1])
    return {name.removeprefix(PREFIX): value for name, value in found.items()}


def test_the_scores_of_four_frames_are_those_by_hand():
    found = scores_of(POSTERIORS, [0, 1], [2.0, 2.0])
    log = np.log
    assert found["agreement"] == pytest.approx(3 / 4)
    assert found["consistency"] == pytest.approx(3 / 4)
    assert found["likelihood"] == pytest.approx((log(0.9) + log(0.4) + log(0.8) + log(0.9)) / 4)
    assert found["margin"] == pytest.approx((log(9) + log(0.4 / 0.6) + log(4) + log(9)) / 4)
    assert found["confidence"] == pytest.approx((0.9 + 0.6 + 0.8 + 0.9) / 4)
    assert found["certainty"] == pytest.approx((POSTERIORS * log(POSTERIORS)).sum() / 4)
    assert found["shares"] == pytest.approx(-abs(3 / 4 - POSTERIORS[:, 0].mean()))
    assert found["order"] == pytest.approx(1 / 2)  # the runs are 0, 1, 0, 1
    assert "lengths" not in found  # the predicted ones are equal
    assert found["score"] < found["likelihood"]


def test_predicted_lengths_are_compared_with_the_aligned_ones():
    posteriors = POSTERIORS[[0, 0, 0, 3]]
    for lengths, expected in (([3.0, 1.0], 1.0), ([1.0, 3.0], -1.0)):
        assert scores_of(posteriors, [0, 1], lengths)["lengths"] == pytest.approx(expected)
    right, wrong = (scores_of(posteriors, [0, 1], lengths) for lengths in ([3.0, 1.0], [1.0, 3.0]))
    assert (right["consistency"], wrong["consistency"]) == (1.0, 0.5)
    assert right["score"] > wrong["score"]


def test_a_network_that_is_as_sure_as_float32_allows_has_finite_scores():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    with np.errstate(divide="ignore"):
        found = scores_of(sure, [0, 1], [1.0, 1.0])
    assert all(np.isfinite(value) for value in found.values())
    assert (found["agreement"], found["certainty"]) == (1.0, pytest.approx(0))


def reports(folder: Path, n: int, *, known: bool = True) -> list[EpochReport]:
    found: list[EpochReport] = []
    videos = small_videos(3) if known else [dataclasses.replace(video, lengths=None) for video in small_videos(3)]
    settings = {"training.epochs": 2, "training.progress_every": 1, "training.label_free_videos": n}
    train_small(folder, CONFIG.with_values(settings), videos, report=found.append)
    return found


def test_a_training_has_them_for_each_scored_epoch_without_labels_and_with_the_same_bits(tmp_path: Path):
    plain, scored, unlabelled = (
        reports(tmp_path / "0", 0),
        reports(tmp_path / "2", 2),
        reports(tmp_path / "u", 2, known=False),
    )
    assert digest(tmp_path / "0") == digest(tmp_path / "2") == digest(tmp_path / "u")

    def own(report: EpochReport) -> dict[str, float]:
        return {name: value for name, value in report.progress.items() if name.startswith(PREFIX)}

    assert [own(report) for report in plain] == [{}, {}]
    assert [own(report) for report in scored] == [report.progress for report in unlabelled]
    assert {"label_free.agreement", "label_free.score"} <= set(scored[0].progress)
    assert "progress.label_free.agreement" in scored[-1].metrics()


def test_at_most_so_many_videos_are_drawn_whatever_is_known_of_them():
    videos = small_videos(6)
    assert len(drawn(videos, 4, 1)) == 4
    assert drawn(videos, 9, 1) == videos
    assert drawn(videos, 0, 1) == []


def test_they_are_in_no_identity():
    one, other = (
        TrialSettings.of(CONFIG.override("training.label_free_videos", n), task="segmentation", method="mucon")
        for n in (0, 20)
    )
    assert (one.canonical, one.earlier, one.given) == (other.canonical, other.earlier, other.given)

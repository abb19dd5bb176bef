"""D3TW: cost of a transcript, loss, predictions and refused inputs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.errors import DataWarning
from mucon.methods import method_named
from mucon.methods.d3tw import D3twConfig, transcript_cost
from mucon.training import EpochReport
from tests.helpers.factories import make_video, small_videos
from tests.helpers.refusals import matching, refused
from tests.mucon.methods.test_table import small, train

CPU = torch.device("cpu")


def random_log_probs(T: int, N: int, seed: int = 0) -> torch.Tensor:
    return torch.log_softmax(torch.tensor(np.random.default_rng(seed).normal(0, 2, (T, N))), dim=1)


def by_enumeration(log_probs: torch.Tensor, transcript: list[int], gamma: float) -> float:
    """The cost by all alignments, with at least one frame for each segment."""
    T, M = len(log_probs), len(transcript)
    costs = []
    for cuts in itertools.combinations(range(1, T), M - 1):
        labels = np.repeat(transcript, np.diff([0, *cuts, T]))
        costs.append(-float(log_probs[range(T), labels].sum()))
    return -gamma * float(np.logaddexp.reduce([-cost / gamma for cost in costs]))


@pytest.mark.parametrize(
    ("T", "transcript"), [(1, [0]), (4, [2]), (5, [0, 1, 0]), (7, [1, 1, 2]), (6, [0, 1, 2, 0, 1, 2])]
)
@pytest.mark.parametrize("gamma", [0.1, 1.0, 3.0])
def test_the_cost_is_the_soft_minimum_over_all_alignments(T: int, transcript: list[int], gamma: float):
    log_probs = random_log_probs(T, 3)
    found = float(transcript_cost(log_probs, np.array(transcript), gamma))
    assert found == pytest.approx(by_enumeration(log_probs, transcript, gamma), rel=1e-9)


def test_the_gradient_of_the_cost_is_that_by_finite_differences():
    log_probs = random_log_probs(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: transcript_cost(x, np.array([0, 2]), 0.5), (log_probs,))


def test_the_full_prediction_is_the_cheapest_training_transcript_at_its_best_alignment(tmp_path: Path):
    train("d3tw", tmp_path)
    predictor = method_named("d3tw").load(tmp_path / "checkpoint")
    features = small_videos(3)[0].features(CPU)[:9]
    log_probs = predictor.classifier.frame_log_probs(features).double()
    transcripts = sorted({video.transcript for video in small_videos(3)})
    costs = [by_enumeration(log_probs, list(one), predictor.config.loss.gamma) for one in transcripts]
    found, best = predictor.begin(features)().segmentations, transcripts[int(np.argmin(costs))]
    assert tuple(found["full"].transcript.tolist()) == best
    aligned = predictor.align(features, best).segmentations
    assert found["full"].lengths.tolist() == aligned["full"].lengths.tolist() == aligned["frames"].lengths.tolist()


def test_a_recording_that_is_shorter_than_every_training_transcript_has_no_full_prediction(tmp_path: Path):
    train("d3tw", tmp_path, videos=[video for video in small_videos(3) if len(video.transcript) > 2])
    predictor = method_named("d3tw").load(tmp_path / "checkpoint")
    prediction = predictor.begin(small_videos(1)[0].features(CPU)[:2])()
    assert set(prediction.segmentations) == {"frames"}
    assert prediction.undefined["full"].problems[0].rule == "shape"


def test_training_videos_with_one_transcript_are_a_warning(tmp_path: Path):
    with pytest.warns(DataWarning) as warned:
        train("d3tw", tmp_path, videos=[make_video(id, (0, 1), (4, 5)) for id in "ab"])
    assert matching([warning.message.problem for warning in warned], "missing", "transcripts", 1)


def test_a_video_that_no_other_transcript_fits_has_no_loss(tmp_path: Path):
    one, other = make_video("long", (0, 1, 2), (4, 4, 4)), make_video("short", (3,), (2,))
    reports: list[EpochReport] = []
    train("d3tw", tmp_path, small("d3tw", loss__margin=100.0), [one, other], report=reports.append)
    assert reports[0].losses["total"] == pytest.approx(100 / 2, abs=10)  # of the long one alone


@pytest.mark.parametrize(
    ("path", "value"),
    [("loss.gamma", 0.0), ("loss.margin", -1.0), ("loss.negatives", 0), ("training.schedule", "published")],
)
def test_settings_outside_their_range_are_refused(path: str, value: object):
    with refused("range", path, n=1):
        D3twConfig().override(path, value)

"""Recordings at the edges: each trains a step, is segmented, aligned and evaluated; what is undefined is counted."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, Progress, weights_sha256
from mucon.errors import DataWarning
from mucon.evaluation import Evaluation, evaluate
from mucon.inference import PREDICTIONS, TASKS, MuConPredictor, align_transcript, predict
from mucon.metrics.alignment import BY_INDEX
from mucon.model import NetworkSize, build_model
from mucon.training import train
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video, small_config
from tests.helpers.refusals import matching, refused

POOLING = 8
CONFIG = small_config(
    backbone__channels=8, backbone__n_groups=2, backbone__pool_after=(1, 2, 3), training__epochs=1, training__threads=1
)
N = VOCABULARY.n_actions
ODD = {
    "one frame": ((1,), (1,)),
    "fewer frames than a latent frame covers": ((1, 2), (3, 4)),
    "one segment": ((2,), (40,)),
    "more segments than latent frames": ((1, 2, 1, 2, 3, 1), (1, 2, 1, 1, 2, 3)),
    "as many segments as frames": ((1, 2, 3, 1), (1, 1, 1, 1)),
    "the same action twice in a row": ((1, 1, 2), (12, 9, 14)),
    "everything background": ((0,), (30,)),
}
SINGLE = ("one frame", "one segment", "everything background")


def odd(name: str) -> Video:
    return make_video(name, *ODD[name])


def fresh(end: float = 0.0, seed: int = 0) -> Checkpoint:
    """An untrained network; `end` makes the end symbol more or less likely."""
    size = NetworkSize(dim=5, n_actions=N, max_segments=6)
    model = build_model(size, CONFIG.backbone, CONFIG.segment_branch, seed=seed)
    with torch.no_grad():
        model.segment_branch.transcript_head[-1].bias[N] = end
    return Checkpoint(model.eval(), CONFIG, VOCABULARY, Progress())


def evaluated(name: str, task: str, end: float = 0.0) -> Evaluation:
    found = evaluate(MuConPredictor(fresh(end)), [odd(name)], task=task)
    json.dumps(found.to_dict(), allow_nan=False)
    return found


@pytest.mark.parametrize("name", ODD)
def test_a_step_of_training_is_done_and_moves_the_weights(tmp_path: Path, name: str):
    """A warning reports what the user can change."""
    video, reports = odd(name), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(CONFIG, [video], VOCABULARY, folder=tmp_path, device="cpu", report=reports.append)
    problems = [warning.message.problem for warning in caught if isinstance(warning.message, DataWarning)]
    crowded = len(video.transcript) > max(video.n_frames // POOLING, 1)
    assert len(matching(problems, "mismatch", "backbone.pool_after", 1)) == (video.n_frames < POOLING) + crowded
    assert all(repr(name) in problem.message for problem in problems)
    trained = checkpoints.load(tmp_path / "checkpoint")
    assert [report.step for report in reports] == [1]
    before = build_model(trained.model.size, CONFIG.backbone, CONFIG.segment_branch, seed=CONFIG.seed)
    assert weights_sha256(trained.model) != weights_sha256(before)
    assert all(torch.isfinite(parameter).all() for parameter in trained.model.parameters())


@pytest.mark.parametrize("end", [0.0, -1e4, 1e4], ids=["end somewhere", "end never", "end first"])
@pytest.mark.parametrize("name", ODD)
def test_segmentation_fills_the_recording_or_is_empty_where_the_end_symbol_comes_first(name: str, end: float):
    video = odd(name)
    found = predict(fresh(end), video.features())
    assert found.segmentations["frames"].n_frames == video.n_frames
    for prediction in ("segments", "full"):
        one = found.segmentations[prediction]
        if end > 0:
            assert (one.n_segments, one.n_frames) == (0, 0)
        else:
            assert one.n_frames == video.n_frames
            assert (one.lengths >= 1).all()
        if end < 0:
            assert one.n_segments == min(6, video.n_frames)
    assert found.cut == (end < 0) or end == 0


@pytest.mark.parametrize("end", [-1e4, 1e4], ids=["end never", "end first"])
@pytest.mark.parametrize("name", ODD)
def test_alignment_has_the_given_segments_wherever_the_end_symbol_would_come(name: str, end: float):
    video = odd(name)
    found = align_transcript(fresh(end), video.features(), video.transcript)
    assert not found.cut
    for prediction in PREDICTIONS:
        one = found.segmentations[prediction]
        assert tuple(one.transcript) == video.transcript
        assert one.n_frames == video.n_frames
        assert (one.lengths >= 1).all()


def test_as_many_segments_as_frames_are_aligned_perfectly():
    found = evaluated("as many segments as frames", "alignment")
    for prediction in PREDICTIONS:
        assert {found.scores[prediction][name] for name in (*BY_INDEX, "mof", "edit")} == {1.0}
        assert found.scores[prediction]["boundary_error_by_index_frames"] == 0.0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ODD)
def test_every_metric_of_one_recording_has_a_value_or_is_counted_as_undefined(name: str, task: str):
    found = evaluated(name, task)
    for prediction in PREDICTIONS:
        scores, undefined = found.scores[prediction], found.undefined[prediction]
        assert set(scores) == {metric for metric, count in undefined.items() if not count}
        assert set(undefined.values()) <= {0, 1}
        assert "boundary_error_frames" not in scores or name not in SINGLE
        assert {"mof", "edit", "f1_at_50", "iod", "matching_score"} <= set(scores)
        assert all(sum(row) == frames for row, frames in zip(
            found.confusion[prediction], found.true_frames.values(), strict=True
        )) or found.n_empty == 1  # fmt: skip


def test_one_segment_has_no_boundary_and_is_aligned_whole():
    for name in SINGLE:
        found = evaluated(name, "alignment")
        for prediction in PREDICTIONS:
            assert found.scores[prediction]["mof"] == found.scores[prediction]["iod_by_index"] == 1.0
            assert found.undefined[prediction]["boundary_error_frames"] == 1
            assert found.undefined[prediction]["boundary_error_by_index_frames"] == 1


def test_where_everything_is_background_what_leaves_it_out_is_undefined():
    for task in TASKS:
        found = evaluated("everything background", task)
        for prediction in PREDICTIONS:
            undefined = {name for name, count in found.undefined[prediction].items() if count}
            assert {"mof_without_background", "iod_without_background", "iou_without_background"} <= undefined
            recall = found.recall[prediction]
            assert [action for action, value in recall.items() if value is None] == ["pour", "stir", "drink"]
    assert {"iod_by_index_without_background", "edit_without_background"} <= undefined


def test_two_repetitions_are_two_segments_by_index_and_one_in_what_frame_labels_show():
    found = evaluated("the same action twice in a row", "alignment")
    for prediction in PREDICTIONS:
        one = found.segmentations[prediction]["the same action twice in a row"]
        assert one.transcript.tolist() == [1, 1, 2]
        counts = found.per_video[0][prediction]
        assert counts["tp_at_10"] + counts["fn_at_10"] == 2
        assert counts["matching_score"] == 1.0
        first, second = one.lengths[:2].tolist()
        by_index = (abs(first - 12) + abs(first + second - 21)) / 2
        assert counts["boundary_error_by_index_frames"] == by_index
        assert counts["boundary_error_frames"] == abs(first + second - 21)


@pytest.mark.parametrize("name", ODD)
def test_an_end_symbol_that_comes_first_scores_zero_and_is_reported(name: str):
    found = evaluated(name, "segmentation", end=1e4)
    assert (found.n_empty, found.n_cut) == (1, 0)
    for prediction in ("segments", "full"):
        assert set(found.scores[prediction].values()) == {0.0}
        assert found.undefined[prediction]["boundary_error_frames"] == 1
        assert found.confusion[prediction] == [[0] * N] * N
        recall = {action for action, value in found.recall[prediction].items() if value == 0.0}
        assert recall == {VOCABULARY.actions[action] for action in ODD[name][0]}


@pytest.mark.parametrize("name", ODD)
def test_an_end_symbol_that_never_comes_is_reported_as_cut_and_scored(name: str):
    found = evaluated(name, "segmentation", end=-1e4)
    assert (found.n_empty, found.n_cut) == (0, 1)
    assert 0 <= found.scores["full"]["mof"] <= 1


def test_more_segments_than_frames_are_refused_in_training_and_have_no_alignment(tmp_path: Path):
    crowded = Video.from_arrays("crowded", [[0.0] * 5] * 2, (1, 2, 1), (1, 0, 1))
    with refused("mismatch", "crowded: transcript", 3, n=1):
        train(CONFIG, [crowded], VOCABULARY, folder=tmp_path, device="cpu")
    aligned = evaluate(MuConPredictor(fresh()), [crowded], task="alignment")
    assert {name: list(reasons) for name, reasons in aligned.not_predicted.items()} == {
        name: ["crowded"] for name in PREDICTIONS
    }
    assert set(aligned.scores) == set(PREDICTIONS)
    assert not any(aligned.scores.values())
    assert evaluate(MuConPredictor(fresh()), [crowded]).per_video[0]["n_frames"] == 2


def test_a_recording_of_one_frame_and_one_of_very_many_are_evaluated_together():
    long = make_video("long", (1, 2), (1200, 1300))
    for task in TASKS:
        found = evaluate(MuConPredictor(fresh()), [odd("one frame"), long], task=task)
        assert [row["n_frames"] for row in found.per_video] == [1, 2500]

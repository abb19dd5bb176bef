"""Evaluation: scores of the predictions that it returns, and refused requests."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, weights_sha256
from mucon.decoding.config import DecodingConfig
from mucon.evaluation import Evaluation, evaluate
from mucon.inference import PREDICTIONS, MuConPredictor
from mucon.metrics.alignment import BY_INDEX, alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.scores import METRICS, score
from mucon.training import train
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video, small_config, small_videos
from tests.helpers.refusals import matching, refused
from tests.mucon.inference.test_predictions import checkpoint


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("run")
    config = small_config(training__epochs=40, training__learning_rate=0.1, training__lr_drop_fraction=1.0)
    train(config, small_videos(5), VOCABULARY, folder=folder, device="cpu")
    return checkpoints.load(folder / "checkpoint")


def test_the_scores_are_those_of_the_segmentations_that_come_with_them(trained: Checkpoint):
    videos = small_videos(8)
    found = evaluate(trained, videos)
    assert tuple(found.scores) == tuple(found.undefined) == tuple(found.segmentations) == PREDICTIONS
    truths = [video.segmentation for video in videos]
    for name in PREDICTIONS:
        predicted = [found.segmentations[name][video.id] for video in videos]
        expected = score(truths, predicted, VOCABULARY.background_ids)
        for ours, theirs in ((found.scores[name], expected.values), (found.undefined[name], expected.undefined)):
            assert {key: ours[key] for key in theirs} == theirs
            assert all(key.startswith("boundary_error") for key in set(ours) - set(theirs))
        for row, theirs in zip(found.per_video, expected.per_video, strict=True):
            assert {key: row[name][key] for key in theirs} == theirs
    assert [(row["id"], row["n_frames"]) for row in found.per_video] == [(v.id, v.n_frames) for v in videos]


def test_scores_are_fractions_under_names_that_every_tool_accepts(trained: Checkpoint):
    scores = evaluate(trained, small_videos(5)).scores
    for values in scores.values():
        assert all(0 <= value <= 1 for name, value in values.items() if not name.startswith("boundary_error"))
        assert not any("@" in metric for metric in values)
    assert scores["frames"]["boundary_error_frames"] >= 0.0


def test_an_evaluation_can_be_written_as_json(trained: Checkpoint):
    found = evaluate(trained, [*small_videos(2), make_video("only-background", (0,), (9,))])
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["scores"] == found.scores
    assert again["undefined"]["frames"]["mof_without_background"] == 1
    assert again["per_video"][2]["frames"]["mof_without_background"] is None
    assert len(again["per_video"]) == 3


def test_cut_and_empty_transcripts_are_counted():
    cut = evaluate(checkpoint(end=-1e4), small_videos(3))
    assert (cut.n_cut, cut.n_empty) == (3, 0)
    empty = evaluate(checkpoint(end=1e4), small_videos(3))
    assert (empty.n_cut, empty.n_empty) == (0, 3)
    assert set(empty.scores["full"].values()) == {0.0}
    assert empty.scores["frames"]["mof"] > 0.0


def test_only_the_predictions_and_the_decoding_that_are_asked_for_are_used(trained: Checkpoint):
    found = evaluate(trained, small_videos(2), predictions=("full",), decoding=DecodingConfig(max_length=17))
    assert list(found.scores) == ["full"]
    assert all(s.lengths.max() <= 17 for s in found.segmentations["full"].values())


def test_recordings_without_true_lengths_are_all_named():
    videos = [Video.from_arrays(name, np.zeros((9, 5)), (1, 2)) for name in ("first", "second")]
    with refused("missing", n=2) as refusal:
        evaluate(checkpoint(), [*videos, *small_videos(1)])
    assert refusal.places == ["first", "second"]
    assert refusal.rules == ["missing", "missing"]


def test_an_evaluation_of_nothing_is_refused():
    with refused("missing", "videos", n=1):
        evaluate(checkpoint(), [])


def without_seconds(found: Evaluation) -> dict[str, Any]:
    """An evaluation without its times, which are above zero for each prediction."""
    content = found.to_dict()
    seconds = content.pop("seconds")
    assert set(seconds) == (set(found.scores) if found.task == "segmentation" else set())
    assert all(value > 0 for value in seconds.values())
    return content


def test_the_same_model_has_the_same_scores_twice(trained: Checkpoint, tmp_path: Path):
    checkpoints.save(tmp_path / "copy", trained)
    copy = checkpoints.load(tmp_path / "copy")
    assert without_seconds(evaluate(copy, small_videos(4))) == without_seconds(evaluate(trained, small_videos(4)))


def test_an_alignment_has_the_true_transcripts_and_the_metrics_by_index(trained: Checkpoint):
    videos = small_videos(6)
    found = evaluate(trained, videos, task="alignment", fps=10.0)
    truths = [video.segmentation for video in videos]
    for name in PREDICTIONS:
        predicted = [found.segmentations[name][video.id] for video in videos]
        assert [tuple(one.transcript) for one in predicted] == [video.transcript for video in videos]
        parts = [
            score(truths, predicted, VOCABULARY.background_ids),
            boundary_scores(truths, predicted, fps=10.0),
            alignment_scores(truths, predicted, VOCABULARY.background_ids, fps=10.0),
        ]
        assert found.scores[name] == {key: value for part in parts for key, value in part.values.items()}
        assert found.undefined[name] == {key: value for part in parts for key, value in part.undefined.items()}
        assert found.scores[name]["matching_score"] == 1.0
        assert set(found.scores[name]) >= {*BY_INDEX, "boundary_error_by_index_seconds", "boundary_error_seconds"}
    assert (found.task, found.n_cut, found.n_empty) == ("alignment", 0, 0)


def test_segmentation_has_no_metric_by_index_and_no_seconds_where_fps_is_not_known(trained: Checkpoint):
    found = evaluate(trained, small_videos(5))
    assert found.task == "segmentation"
    for undefined in found.undefined.values():
        assert set(undefined) == {*METRICS, "boundary_error_frames", "boundary_error_median_frames"}
    assert "boundary_error_seconds" in evaluate(trained, small_videos(5), fps=10.0).undefined["full"]


def test_recall_precision_and_confusion_are_of_all_recordings_together(trained: Checkpoint):
    videos = small_videos(6)
    found = evaluate(trained, videos)
    labels = np.concatenate([video.frame_labels() for video in videos])
    for name in PREDICTIONS:
        predicted = np.concatenate([found.segmentations[name][video.id].to_frame_labels() for video in videos])
        counts = np.array(found.confusion[name])
        assert counts.sum() == len(labels) == sum(found.true_frames.values())
        assert counts.trace() / counts.sum() == pytest.approx(found.scores[name]["mof"])
        for n, action in enumerate(VOCABULARY.actions):
            assert found.recall[name][action] == pytest.approx((predicted[labels == n] == n).mean())
            some = predicted == n
            assert found.precision[name][action] == (pytest.approx((labels[some] == n).mean()) if some.any() else None)


def test_frames_without_any_action_count_against_recall_and_are_in_no_column():
    found = evaluate(checkpoint(end=1e4), small_videos(3))
    assert found.confusion["full"] == [[0] * 4] * 4
    assert found.recall["full"] == dict.fromkeys(VOCABULARY.actions, 0.0)
    assert found.precision["full"] == dict.fromkeys(VOCABULARY.actions)
    assert "boundary_error_frames" not in found.scores["full"]
    assert found.undefined["full"]["boundary_error_frames"] == 3


def test_the_model_that_is_evaluated_stays_as_it_is(trained: Checkpoint):
    model = trained.model
    expected = without_seconds(evaluate(trained, small_videos(3)))
    before, places = weights_sha256(model), [parameter.data_ptr() for parameter in model.parameters()]
    model.train()
    try:
        for task in ("segmentation", "alignment"):
            found = evaluate(trained, small_videos(3), task=task)
            assert all(module.training for module in model.modules())
            assert task == "alignment" or without_seconds(found) == expected
    finally:
        model.eval()
    assert weights_sha256(model) == before
    assert [parameter.data_ptr() for parameter in model.parameters()] == places


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_model_on_the_processor_stays_there_when_a_gpu_evaluates_it(trained: Checkpoint):
    for task in ("segmentation", "alignment"):
        found = evaluate(trained, small_videos(3), device="cuda", task=task)
        assert found.scores["full"]["mof"] > 0.0
        assert {parameter.device.type for parameter in trained.model.parameters()} == {"cpu"}


def test_an_unknown_task_is_refused():
    with refused("unknown", "task", "aligment", n=1) as refusal:
        evaluate(checkpoint(), small_videos(1), task="aligment")
    assert "'alignment'" in str(refusal.problems[0])


def test_truths_that_cannot_be_evaluated_are_all_named():
    other = Video.from_arrays("other", np.zeros((9, 5)), (1, 7), (4, 5))
    crowded = Video.from_arrays("crowded", np.zeros((2, 5)), (1, 2, 1), (1, 0, 1))
    with refused("range", "other", [7], n=2) as refusal:
        evaluate(checkpoint(), [other, crowded], task="alignment")
    assert len(matching(refusal.problems, "range", "crowded", 3)) == 1
    with refused("range", "other", [7], n=1):
        evaluate(checkpoint(), [other, crowded])


def test_an_unknown_prediction_is_refused_before_any_recording_is_read():
    def read() -> np.ndarray:
        raise AssertionError

    unread = dataclasses.replace(small_videos(1)[0], read=read)
    with refused("unknown", "prediction", "viterbi", n=1):
        evaluate(checkpoint(), [unread], predictions=("full", "viterbi"))


def test_a_predictor_has_the_scores_of_its_checkpoint(trained: Checkpoint):
    ours, theirs = (evaluate(one, small_videos(4)) for one in (MuConPredictor(trained), trained))
    assert without_seconds(ours) == without_seconds(theirs)


def test_several_threads_decode_to_the_same_scores():
    trained, videos = checkpoint(), small_videos(6)
    one, three = (evaluate(trained, videos, threads=threads).to_dict() for threads in (1, 3))
    del one["seconds"], three["seconds"]
    assert one == three

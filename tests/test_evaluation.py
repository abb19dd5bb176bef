"""Evaluation: scores of the predictions that it returns, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint
from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError
from mucon.evaluation import evaluate
from mucon.inference import PREDICTIONS
from mucon.metrics.scores import score
from mucon.training import train
from mucon.videos import Video
from tests.factories import VOCABULARY, make_video, small_config, small_videos
from tests.test_inference import checkpoint


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
    with pytest.raises(InputError) as caught:
        evaluate(checkpoint(), [*videos, *small_videos(1)])
    for name, line in zip(("first", "second"), caught.value.problems, strict=True):
        assert f"{name!r} has only a transcript" in line


def test_an_evaluation_of_nothing_is_refused():
    with pytest.raises(InputError, match="at least one recording"):
        evaluate(checkpoint(), [])


def test_the_same_model_has_the_same_scores_twice(trained: Checkpoint, tmp_path: Path):
    checkpoints.save(tmp_path / "copy", trained)
    copy = checkpoints.load(tmp_path / "copy")
    assert evaluate(copy, small_videos(4)).to_dict() == evaluate(trained, small_videos(4)).to_dict()

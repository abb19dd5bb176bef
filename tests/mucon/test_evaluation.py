"""Evaluation: scores of the predictions that it returns, and refused requests."""

from __future__ import annotations

import dataclasses
import io
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint, TrainingFacts, weights_sha256
from mucon.commands.printing import action_table
from mucon.decoding.config import DecodingConfig
from mucon.evaluation import Evaluation, evaluate
from mucon.inference import PREDICTIONS, MuConPredictor, predict
from mucon.library import Model
from mucon.metrics.alignment import BY_INDEX, alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.confusion import cells_of
from mucon.metrics.scores import METRICS, score
from mucon.model import NetworkSize, build_model
from mucon.segments import Segmentation
from mucon.training import train
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from tests.helpers.factories import VOCABULARY, make_video, small_config, small_videos
from tests.helpers.refusals import refused
from tests.mucon.inference.test_predictions import checkpoint


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("run")
    config = small_config(training__epochs=40, training__learning_rate=0.1, training__lr_drop_fraction=1.0)
    train(config, small_videos(5), VOCABULARY, folder=folder, device="cpu")
    return checkpoints.load(folder / "checkpoint")


def test_the_scores_are_those_of_the_segmentations_that_come_with_them(trained: Checkpoint):
    videos = small_videos(8)
    found = evaluate(MuConPredictor(trained), videos)
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
    scores = evaluate(MuConPredictor(trained), small_videos(5)).scores
    for values in scores.values():
        assert all(0 <= value <= 1 for name, value in values.items() if not name.startswith("boundary_error"))
        assert not any("@" in metric for metric in values)
    assert scores["frames"]["boundary_error_frames"] >= 0.0


def test_an_evaluation_can_be_written_as_json(trained: Checkpoint):
    found = evaluate(MuConPredictor(trained), [*small_videos(2), make_video("only-background", (0,), (9,))])
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["scores"] == found.scores
    assert again["undefined"]["frames"]["mof_without_background"] == 1
    assert again["per_video"][2]["frames"]["mof_without_background"] is None
    assert len(again["per_video"]) == 3


def test_cut_and_empty_transcripts_are_counted():
    cut = evaluate(MuConPredictor(checkpoint(end=-1e4)), small_videos(3))
    assert (cut.n_cut, cut.n_empty) == (3, 0)
    empty = evaluate(MuConPredictor(checkpoint(end=1e4)), small_videos(3))
    assert (empty.n_cut, empty.n_empty) == (0, 3)
    assert set(empty.scores["full"].values()) == {0.0}
    assert empty.scores["frames"]["mof"] > 0.0


def test_only_the_predictions_and_the_decoding_that_are_asked_for_are_used(trained: Checkpoint):
    found = evaluate(
        MuConPredictor(trained), small_videos(2), predictions=("full",), decoding=DecodingConfig(max_length=17)
    )
    assert list(found.scores) == ["full"]
    assert all(s.lengths.max() <= 17 for s in found.segmentations["full"].values())


AWKWARD = {
    "length cap": (DecodingConfig(max_length=11), 120),
    "length cap and beam": (DecodingConfig(max_length=33, beam=3), 120),
    "length cap and training transcripts": (DecodingConfig(max_length=11, transcripts="training"), 120),
    "training transcripts": (DecodingConfig(transcripts="training"), 2),
    "prefix beam": (DecodingConfig(transcripts="training", prefix_beam=1), 2),
    "published steps": (DecodingConfig(method="published", step=9), 20),
    "published cap": (DecodingConfig(method="published", step=1, max_length=11), 120),
}
"""Decoding choices, and the frames of a recording that cannot be decoded with them."""


def knowing(given: Checkpoint) -> Checkpoint:
    """A model with facts about its training videos: every transcript has three segments."""
    facts = TrainingFacts(transcripts=((0, 1, 0), (1, 2, 3)), mean_lengths=(6.0,) * 4, frame_shares=(0.25,) * 4)
    return dataclasses.replace(given, facts=facts)


@pytest.mark.parametrize("name", AWKWARD)
def test_a_recording_that_cannot_be_decoded_loses_that_prediction_alone(name: str):
    decoding, n_frames = AWKWARD[name]
    model = MuConPredictor(knowing(checkpoint(end=-1e4, max_segments=3)))
    awkward = make_video("awkward", (0, 1), (1, n_frames - 1))
    others = [make_video(f"v{n}", (0, 1, 0), (9, 6, 3 * n + 13)) for n in range(2)]
    found = evaluate(model, [others[0], awkward, others[1]], decoding=decoding, threads=2)
    assert {one: list(reasons) for one, reasons in found.not_predicted.items()} == {
        "frames": [], "segments": [], "full": ["awkward"]
    }  # fmt: skip
    assert found.not_predicted["full"]["awkward"]
    alone = evaluate(model, others, decoding=decoding)
    assert found.scores["full"] == alone.scores["full"]
    assert found.confusion["full"] == alone.confusion["full"]
    assert found.recall["full"] == alone.recall["full"]
    assert found.undefined["full"] == {key: n + 1 for key, n in alone.undefined["full"].items()}
    assert set(found.per_video[1]["full"].values()) == {None}
    assert found.per_video[1]["segments"]["mof"] is not None
    assert list(found.segmentations["full"]) == ["v0", "v1"]
    assert set(found.seconds) == set(PREDICTIONS)
    json.dumps(found.to_dict(), allow_nan=False)
    undecoded = evaluate(model, [awkward], decoding=decoding)
    assert undecoded.scores["full"] == {}
    assert set(undecoded.undefined["full"].values()) == {1}
    assert undecoded.scores["frames"]["mof"] >= 0.0
    with refused("mismatch"):
        predict(model.checkpoint, awkward.features(), decoding=decoding)


@pytest.mark.parametrize("decoding", [DecodingConfig(max_length=11), DecodingConfig(method="published", step=30)])
def test_a_recording_that_cannot_be_aligned_loses_that_alignment_alone(decoding: DecodingConfig):
    crowded = Video.from_arrays("crowded", np.zeros((2, 5)), (1, 2, 1), (1, 0, 1))
    videos = [make_video("long", (0, 1), (30, 20)), crowded, Video.from_arrays("unknown", np.zeros((9, 5)))]
    found = evaluate(MuConPredictor(checkpoint()), videos, task="alignment", decoding=decoding)
    assert {name: list(reasons) for name, reasons in found.not_predicted.items()} == {
        "frames": ["crowded", "unknown"], "segments": ["crowded", "unknown"], "full": ["long", "crowded", "unknown"]
    }  # fmt: skip
    assert found.scores["full"] == {}
    assert found.scores["segments"]["iod_by_index"] > 0.0
    assert {name for name, seconds in found.seconds.items() if seconds > 0} == {"frames", "segments"}
    assert found.undefined["segments"]["mof"] == 2


def test_a_recording_for_which_the_network_computes_nan_has_no_prediction():
    videos = [*small_videos(2), Video.from_arrays("huge", np.full((9, 5), 3e38, np.float32), (1, 2), (4, 5))]
    for task, names in (("segmentation", ("frames", "segments")), ("alignment", PREDICTIONS)):
        found = evaluate(MuConPredictor(checkpoint(end=-1e4)), videos, task=task)
        assert all(list(found.not_predicted[name]) == ["huge"] for name in names), found.not_predicted
        assert found.undefined["frames"]["mof"] == 1


def test_recordings_without_lengths_are_scored_by_their_transcripts(trained: Checkpoint):
    videos, model = small_videos(4), MuConPredictor(trained)
    silent = [dataclasses.replace(video, lengths=None) for video in videos[:2]]
    unknown = dataclasses.replace(videos[0], id="unknown", transcript=(), lengths=None)
    whole, found = evaluate(model, videos, fps=9.0), evaluate(model, [*silent, *videos[2:], unknown], fps=9.0)
    part = evaluate(model, videos[2:], fps=9.0)
    for name in PREDICTIONS:
        for metric in ("matching_score", "edit", "edit_without_background"):
            assert found.scores[name][metric] == whole.scores[name][metric]
            assert found.undefined[name][metric] == 1 + whole.undefined[name][metric]
        for metric in set(part.undefined[name]) - {"matching_score", "edit", "edit_without_background"}:
            assert found.scores[name].get(metric) == part.scores[name].get(metric)
            assert found.undefined[name][metric] == 3 + part.undefined[name][metric]
    assert [row["annotation"] for row in found.per_video] == ["transcript"] * 2 + ["lengths"] * 2 + ["none"]
    assert (found.n_without_lengths, found.true_frames) == (3, part.true_frames)
    assert (found.recall, found.precision, found.confusion) == (part.recall, part.precision, part.confusion)
    assert len(found.segmentations["full"]) == 5


def test_repetitions_in_a_transcript_without_lengths_count_as_in_one_with_lengths():
    prediction, transcript = Segmentation.of([1, 2], [3, 4]), (1, 1, 2)
    known, unknown = (score([truth], [prediction]) for truth in (Segmentation.of(transcript, (2, 1, 4)), transcript))
    assert unknown.values == {metric: known.values[metric] for metric in unknown.values}
    assert list(unknown.values) == ["matching_score", "edit", "edit_without_background"]


def test_an_evaluation_in_which_nothing_is_annotated_has_no_scores():
    videos = [dataclasses.replace(video, transcript=(), lengths=None) for video in small_videos(2)]
    found = evaluate(MuConPredictor(checkpoint()), videos)
    assert not any(found.scores.values())
    assert set(found.undefined["full"].values()) == {2}
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_network_computes_with_the_threads_of_its_training(monkeypatch: pytest.MonkeyPatch):
    given, seen = checkpoint(), []
    given = dataclasses.replace(given, config=given.config.override("training.threads", 2))
    encode = type(given.model).encode

    def spied(model: torch.nn.Module, features: torch.Tensor) -> object:
        seen.append(torch.get_num_threads())
        return encode(model, features)

    monkeypatch.setattr(type(given.model), "encode", spied)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        evaluate(MuConPredictor(given), small_videos(2), threads=2)
        Model(MuConPredictor(given)).predict(small_videos(1)[0].read())
        assert (seen, torch.get_num_threads()) == ([2, 2, 2], 1)
        with refused("unknown", "prediction"):
            evaluate(MuConPredictor(given), small_videos(1), predictions=("none",))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_many_actions_make_a_small_result():
    n_actions, config = 2000, small_config()
    vocabulary = Vocabulary(tuple(f"action {n}" for n in range(n_actions)))
    size = NetworkSize(dim=5, n_actions=n_actions, max_segments=3)
    model = build_model(size, config.backbone, config.segment_branch, seed=1)
    arrays = [np.random.default_rng(n).normal(size=(50, 5)) for n in range(3)]
    videos = [Video.from_arrays(f"v{n}", array, (5 * n, 1999), (30, 20)) for n, array in enumerate(arrays)]
    predictor = MuConPredictor(Checkpoint(model.eval(), config, vocabulary, checkpoints.Progress()))
    tracemalloc.start()
    found = evaluate(predictor, videos)
    assert tracemalloc.get_traced_memory()[1] < 16e6  # a dense matrix has 32 MB
    tracemalloc.stop()
    assert len(json.dumps(found.to_dict())) < 2e6
    cells = cells_of(found.confusion["frames"], n_actions)
    predicted = np.concatenate([found.segmentations["frames"][video.id].to_frame_labels() for video in videos])
    true = np.concatenate([video.frame_labels() for video in videos])
    assert cells == Counter(zip(true.tolist(), predicted.tolist(), strict=True))
    Console(file=io.StringIO()).print(action_table(found, "frames"))


def test_an_evaluation_of_nothing_is_refused():
    with refused("missing", "videos", n=1):
        evaluate(MuConPredictor(checkpoint()), [])


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
    again, first = (evaluate(MuConPredictor(one), small_videos(4)) for one in (copy, trained))
    assert without_seconds(again) == without_seconds(first)


def test_an_alignment_has_the_true_transcripts_and_the_metrics_by_index(trained: Checkpoint):
    videos = small_videos(6)
    found = evaluate(MuConPredictor(trained), videos, task="alignment", fps=10.0)
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
    found = evaluate(MuConPredictor(trained), small_videos(5))
    assert found.task == "segmentation"
    for undefined in found.undefined.values():
        assert set(undefined) == {*METRICS, "boundary_error_frames", "boundary_error_median_frames"}
    assert "boundary_error_seconds" in evaluate(MuConPredictor(trained), small_videos(5), fps=10.0).undefined["full"]


def test_recall_precision_and_confusion_are_of_all_recordings_together(trained: Checkpoint):
    videos = small_videos(6)
    found = evaluate(MuConPredictor(trained), videos)
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
    found = evaluate(MuConPredictor(checkpoint(end=1e4)), small_videos(3))
    assert found.confusion["full"] == [[0] * 4] * 4
    assert found.recall["full"] == dict.fromkeys(VOCABULARY.actions, 0.0)
    assert found.precision["full"] == dict.fromkeys(VOCABULARY.actions)
    assert "boundary_error_frames" not in found.scores["full"]
    assert found.undefined["full"]["boundary_error_frames"] == 3


def test_the_model_that_is_evaluated_stays_as_it_is(trained: Checkpoint):
    model = trained.model
    expected = without_seconds(evaluate(MuConPredictor(trained), small_videos(3)))
    before, places = weights_sha256(model), [parameter.data_ptr() for parameter in model.parameters()]
    model.train()
    try:
        for task in ("segmentation", "alignment"):
            found = evaluate(MuConPredictor(trained), small_videos(3), task=task)
            assert all(module.training for module in model.modules())
            assert task == "alignment" or without_seconds(found) == expected
    finally:
        model.eval()
    assert weights_sha256(model) == before
    assert [parameter.data_ptr() for parameter in model.parameters()] == places


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_model_on_the_processor_stays_there_when_a_gpu_evaluates_it(trained: Checkpoint):
    for task in ("segmentation", "alignment"):
        found = evaluate(MuConPredictor(trained), small_videos(3), device="cuda", task=task)
        assert found.scores["full"]["mof"] > 0.0
        assert {parameter.device.type for parameter in trained.model.parameters()} == {"cpu"}


def test_an_unknown_task_is_refused():
    with refused("unknown", "task", "aligment", n=1) as refusal:
        evaluate(MuConPredictor(checkpoint()), small_videos(1), task="aligment")
    assert "'alignment'" in str(refusal.problems[0])


def test_truths_with_unknown_actions_are_all_named():
    other = Video.from_arrays("other", np.zeros((9, 5)), (1, 7), (4, 5))
    silent = Video.from_arrays("silent", np.zeros((9, 5)), (4,))
    for task in ("alignment", "segmentation"):
        with refused("range", "other", [7], n=2) as refusal:
            evaluate(MuConPredictor(checkpoint()), [other, silent], task=task)
        assert refusal.places == ["other", "silent"]


def test_an_unknown_prediction_is_refused_before_any_recording_is_read():
    def read() -> np.ndarray:
        raise AssertionError

    unread = dataclasses.replace(small_videos(1)[0], read=read)
    with refused("unknown", "prediction", "viterbi", n=1):
        evaluate(MuConPredictor(checkpoint()), [unread], predictions=("full", "viterbi"))


def test_several_threads_decode_to_the_same_scores():
    trained, videos = checkpoint(), small_videos(6)
    one, three = (evaluate(MuConPredictor(trained), videos, threads=threads).to_dict() for threads in (1, 3))
    del one["seconds"], three["seconds"]
    assert one == three

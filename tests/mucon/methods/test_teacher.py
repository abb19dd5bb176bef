"""Training on the predictions of another model: its labels, never the true ones, and the same bits after a stop."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.checkpoint_files import read
from mucon.errors import InputError, Interrupted
from mucon.methods import method_named
from mucon.methods.frames.learner import PREDICTED, FrameLearner
from mucon.methods.frames.teacher import predicted_labels, teacher_digest
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, small_videos
from tests.helpers.refusals import refused
from tests.mucon.methods.test_table import digest, small, train
from tests.mucon.training.test_loop import StopAfter

VIDEOS = small_videos(3)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    train("mucon", folder, small("mucon", training__labelled=0.0))
    return folder


def student(teacher: Path, **settings: object):
    return small("frame_mlp", **{"training__labelled": 0.0, "training__labels_from": str(teacher), **settings})


def without_lengths(videos: list[Video]) -> list[Video]:
    return [dataclasses.replace(video, lengths=None) for video in videos]


def false_lengths(videos: list[Video]) -> list[Video]:
    return [dataclasses.replace(video, lengths=tuple(reversed(video.lengths or ()))) for video in videos]


def test_the_labels_are_alignments_of_the_transcripts_by_the_models_main_prediction(teacher: Path):
    predictor = method_named("mucon").load(teacher / "checkpoint")
    found = predicted_labels(str(teacher), VIDEOS, VOCABULARY, 5, CPU)
    for video, labels in zip(VIDEOS, found, strict=True):
        aligned = predictor.align(video.features(), video.transcript, predictions=("full",))
        assert np.array_equal(labels, aligned.segmentations["full"].to_frame_labels())


def test_a_model_that_cannot_align_predicts_without_the_transcripts(tmp_path: Path):
    train("frame_mlp", tmp_path)
    predictor = method_named("frame_mlp").load(tmp_path / "checkpoint")
    (labels,) = predicted_labels(str(tmp_path), VIDEOS[:1], VOCABULARY, 5, CPU)
    predicted = predictor.begin(VIDEOS[0].features(), predictions=("frames",))().segmentations["frames"]
    assert np.array_equal(labels, predicted.to_frame_labels())


def test_true_lengths_change_no_bit(teacher: Path, tmp_path: Path):
    kinds = {"true": VIDEOS, "none": without_lengths(VIDEOS), "false": false_lengths(VIDEOS)}
    for name, videos in kinds.items():
        train("frame_mlp", tmp_path / name, student(teacher), videos)
    assert len({digest("frame_mlp", tmp_path / name) for name in kinds}) == 1
    train("frame_mlp", tmp_path / "full")
    assert digest("frame_mlp", tmp_path / "full") != digest("frame_mlp", tmp_path / "true")
    assert read(tmp_path / "none" / "checkpoint").trained_on.earlier.keys() == {video.id for video in VIDEOS}


def test_labelled_videos_keep_their_true_labels_and_the_others_get_predicted_ones(teacher: Path, tmp_path: Path):
    config, method = student(teacher, training__labelled=0.33), method_named("frame_mlp")
    learner = method.learner(config, VIDEOS, VOCABULARY, tmp_path, CPU, 5, None)
    assert isinstance(learner, FrameLearner)
    assert len(method.visited(config, VIDEOS)) == len(learner.videos) == len(learner.labels) == 3
    predicted = dict(
        zip([video.id for video in VIDEOS], predicted_labels(str(teacher), VIDEOS, VOCABULARY, 5, CPU), strict=True)
    )
    assert sum(video.labelled for video in learner.videos) == 1
    for video, labels in zip(learner.videos, learner.labels, strict=True):
        expected = video.frame_labels() if video.labelled else predicted[video.id]
        assert np.array_equal(labels.numpy(), expected)


@pytest.mark.parametrize("k", [1, 4])
def test_a_resumed_training_has_the_same_bits_even_if_the_model_has_changed_or_gone(
    teacher: Path, tmp_path: Path, k: int
):
    train("frame_mlp", tmp_path / "whole", student(teacher))
    mine = tmp_path / "teacher"
    shutil.copytree(teacher, mine)
    with pytest.raises(Interrupted):
        train("frame_mlp", tmp_path / "run", student(mine), should_stop=StopAfter(k))
    shutil.rmtree(mine)
    train("frame_mlp", tmp_path / "run", student(mine))
    assert digest("frame_mlp", tmp_path / "run") == digest("frame_mlp", tmp_path / "whole")
    (tmp_path / "run" / "checkpoint" / "learner.safetensors").unlink()
    train("frame_mlp", tmp_path / "run", student(mine))  # a finished training needs no label


def test_a_checkpoint_without_its_labels_is_refused_rather_than_trained_on_others(teacher: Path, tmp_path: Path):
    with pytest.raises(Interrupted):
        train("frame_mlp", tmp_path, student(teacher), should_stop=StopAfter(2))
    assert list(read(tmp_path / "checkpoint").learner) == [PREDICTED]
    (tmp_path / "checkpoint" / "learner.safetensors").unlink()
    with refused("damaged"):
        train("frame_mlp", tmp_path, student(teacher))


def test_the_identity_has_the_digest_of_the_model_and_not_its_path(teacher: Path, tmp_path: Path):
    method = method_named("frame_mlp")
    shutil.copytree(teacher, tmp_path / "copy")
    train("mucon", tmp_path / "other", small("mucon", training__labelled=0.0, seed=2))
    train("mucon", tmp_path / "decoded", small("mucon", training__labelled=0.0, decoding__length_prior="none"))
    found = [
        method.identifying(student(folder))["training.labels_from"]
        for folder in (teacher, tmp_path / "copy", tmp_path / "other", tmp_path / "decoded")
    ]
    assert found[0] == found[1] == teacher_digest(str(teacher))
    assert len(set(found)) == 3


def test_what_cannot_label_is_refused(teacher: Path, tmp_path: Path):
    for labelled in (1.0, -0.1):
        with refused("range", "training.labelled", labelled):
            student(teacher, training__labelled=labelled)
    with refused("range", "training.labelled", 0.0):
        small("frame_mlp", training__labelled=0.0)
    with pytest.raises(InputError):
        train("frame_mlp", tmp_path / "run", student(tmp_path / "nowhere"))
    with pytest.raises(Interrupted):
        train("mucon", tmp_path / "begun", should_stop=StopAfter(2))
    with refused("missing", n=1):
        train("frame_mlp", tmp_path / "run", student(tmp_path / "begun"))
    assert not (tmp_path / "run" / "checkpoint").exists()

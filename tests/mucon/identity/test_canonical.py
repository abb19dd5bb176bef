"""Settings without effect: the same training has one canonical configuration, and equal ones give equal bits."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mucon import device as devices
from mucon.decoding.config import DecodingConfig
from mucon.errors import DataWarning
from mucon.library import load_predictor
from mucon.methods import method_named
from mucon.training import train
from tests.helpers.factories import VOCABULARY, small_config, small_videos
from tests.helpers.refusals import refused

EPOCHS = 3
MIXED = {"training.labelled": 0.5}
MASKS = {"mask.shape": "bell", "mask.overlap": 0.2, "mask.n_samples": 50, "mask.min_ramp_frames": 3.0}
SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"mask.overlap_rule": "published"}),
    ({}, {"loss.normalise": "stretched_length"}),
    ({}, {"loss.frame": 3.0, "loss.supervised_length": 2.0}),
    ({}, {"loss.supervised_length_rule": "share", "loss.length_on_labelled": True}),
    ({"loss.consistency": "frame"}, {"loss.normalise": "mask_sum", "loss.detach_length": True}),
    ({"loss.consistency": "frame"}, {"loss.over_segments": "sum"}),
    ({"loss.length": 0.0}, {"loss.length_width": 0.0}),
    ({"loss.smoothing": 0.0}, {"loss.smoothing_threshold": 1.0, "loss.smoothing_rule": "after_mean"}),
    ({"loss.smoothing": 0.0}, {"loss.smoothing_detached": False}),
    ({"loss.mutual_consistency": 0.0}, MASKS),
    ({"loss.mutual_consistency": 0.0}, {"loss.background_weight": 0.5, "loss.over_segments": "length"}),
    ({"loss.mutual_consistency": 0.0}, {"loss.consistency": "frame", "loss.detach_length": True}),
    ({"loss.mutual_consistency": 0.0}, {"loss.normalise": "mask_sum", "loss.over_segments": "sum"}),
    ({**MIXED, "loss.supervised_length": 0.0}, {"loss.supervised_length_rule": "share"}),
    ({**MIXED, "loss.length": 0.0, "loss.length_width": 0.0}, {"loss.length_on_labelled": True}),
    ({"backbone.pool_after": ()}, {"backbone.upsampling": "stride"}),
    ({"backbone.kind": "single"}, {"backbone.dilation": "linear"}),
    ({"training.lr_drop_fraction": 2 / 3}, {"training.lr_drop_epoch": 2, "training.lr_drop_fraction": 0.1}),
    ({"training.lr_drop_factor": 1.0}, {"training.lr_drop_factor": 0.5, "training.lr_drop_epoch": EPOCHS}),
    ({"training.lr_drop_factor": 1.0}, {"training.lr_drop_fraction": 1.0, "training.lr_drop_factor": 0.5}),
    ({}, {"training.lr_drop_epoch": 1}),
    ({"training.teacher_forcing": 2 / 3}, {"training.teacher_forcing": 0.6}),
    ({}, {"training.teacher_forcing": 0.99}),
]
DIFFERENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"mask.overlap": 0.1}, {"mask.overlap_rule": "published"}),
    ({"mask.overlap": 0.1}, {"loss.normalise": "stretched_length"}),
    ({}, {"loss.normalise": "mask_sum"}),
    ({}, {"loss.background_weight": 0.5}),
    ({}, {"loss.over_segments": "length"}),
    (MIXED, {"loss.frame": 3.0}),
    (MIXED, {"loss.supervised_length_rule": "share"}),
    (MIXED, {"loss.length_width": 0.0, "loss.length_on_labelled": True}),
    ({}, {"loss.length_width": 0.0}),
    ({}, {"loss.smoothing_threshold": 0.1}),
    ({}, {"training.lr_drop_epoch": 2}),
    ({}, {"training.lr_drop_factor": 1.0}),
    ({}, {"training.teacher_forcing": 2 / 3}),
    ({}, {"backbone.upsampling": "stride"}),
]


def both(base: dict[str, Any], change: dict[str, Any]) -> tuple[Any, Any]:
    config = small_config(training__epochs=EPOCHS, training__progress_videos=0).with_values(base)
    return config, config.with_values(change)


@cache
def weights(config: Any) -> str:
    with TemporaryDirectory() as folder:
        train(config, small_videos(2), VOCABULARY, folder=Path(folder), device="cpu")
        return load_predictor(folder).weights_sha256()


@pytest.mark.parametrize(("base", "change"), SAME)
def test_settings_without_effect_leave_the_bits_and_the_canonical_form(base: dict[str, Any], change: dict[str, Any]):
    one, other = both(base, change)
    assert one != other
    assert one.canonical() == other.canonical()
    assert one.canonical().canonical() == one.canonical()
    assert weights(one) == weights(other)


@pytest.mark.parametrize(("base", "change"), DIFFERENT)
def test_settings_with_an_effect_are_another_training(base: dict[str, Any], change: dict[str, Any]):
    one, other = both(base, change)
    assert one.canonical().trained_differences() != other.canonical().trained_differences()


def test_a_run_resumes_under_settings_that_mean_the_same(tmp_path: Path):
    one, other = both({}, {"mask.overlap_rule": "published", "training.lr_drop_epoch": 1, "loss.frame": 2.0})
    train(one, small_videos(2), VOCABULARY, folder=tmp_path, device="cpu")
    train(other, small_videos(2), VOCABULARY, folder=tmp_path, device="cpu")
    with refused("conflict", str(tmp_path), ("loss.normalise",), n=1):
        changed = one.override("loss.normalise", "mask_sum")
        train(changed, small_videos(2), VOCABULARY, folder=tmp_path, device="cpu")


def test_supervised_settings_count_where_the_videos_say_that_they_are_labelled():
    config = small_config(loss__frame=2.0)
    assert config.canonical().loss.frame == 1.0
    assert config.canonical(labelled=True) == config


def test_a_frame_classifier_without_smoothing_has_no_threshold():
    config = method_named("ms_tcn").config()
    changed = config.override("loss.threshold", 2.0)
    assert config.canonical() != changed.canonical()
    assert config.override("loss.smoothing", 0).canonical() == changed.override("loss.smoothing", 0).canonical()


@pytest.mark.parametrize(
    ("task", "changes", "same"),
    [
        ("segmentation", {"length_prior": "gaussian", "length_spread": 0.1}, False),
        ("segmentation", {"beam": 5}, False),
        ("segmentation", {"transcripts": "training"}, False),
        ("segmentation", {"method": "published"}, False),
        ("segmentation", {"max_length": 5}, False),
        ("alignment", {"transcripts": "training", "prefix_beam": 3}, True),
        ("alignment", {"beam": 5}, True),
        ("alignment", {"length_prior": "none"}, False),
        ("alignment", {"class_prior": "training"}, False),
    ],
)
def test_decoding_choices_without_effect_on_a_task(task: str, changes: dict[str, Any], same: bool):
    assert (DecodingConfig(**changes).canonical(task) == DecodingConfig().canonical(task)) is same


def test_a_run_is_not_resumed_in_another_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config, bfloat16 = both({}, {"training.precision": "bfloat16"})
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    for one, other in ((config, bfloat16), (bfloat16, config)):
        folder = tmp_path / one.training.precision
        train(one, small_videos(2), VOCABULARY, folder=folder, device="cpu")
        with refused("conflict", str(folder), ("training.precision",), n=1):
            train(other, small_videos(2), VOCABULARY, folder=folder, device="cpu")


def test_a_run_records_the_precision_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config, bfloat16 = both({}, {"training.precision": "bfloat16"})
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    with pytest.warns(DataWarning):
        train(bfloat16, small_videos(2), VOCABULARY, folder=tmp_path, device="cpu")
    assert load_predictor(tmp_path).config == config
    assert load_predictor(tmp_path).weights_sha256() == weights(config)
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    with refused("conflict", str(tmp_path), ("training.precision",), n=1):
        train(bfloat16, small_videos(2), VOCABULARY, folder=tmp_path, device="cpu")


def test_the_published_decoder_has_one_length_prior():
    published, other = DecodingConfig(method="published"), DecodingConfig(method="published", length_prior="class")
    assert published.canonical() == other.canonical() == published

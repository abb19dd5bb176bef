"""The offset of the background in predictions, and the facts from which its rules take it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import Checkpoint
from mucon.decoding.background import aligned, lowered
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import background_offset
from mucon.evaluation import evaluate
from mucon.inference import MuConPredictor, align_transcript, predict
from mucon.inference.background_shares import BackgroundShares, background_shares
from mucon.inference.training_facts import observed, training_facts
from mucon.training import train
from mucon.vocabulary import Vocabulary
from tests.helpers.factories import VOCABULARY, small_config, small_videos
from tests.helpers.refusals import refused
from tests.mucon.inference.test_predictions import checkpoint, features

VIDEOS = small_videos(6)
SHARE = DecodingConfig(background_rule="share", background_share=0.3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four training videos, one of them labelled."""
    folder = tmp_path_factory.mktemp("run")
    config = small_config(training__epochs=3, training__labelled=0.25, decoding__background_rule="labelled")
    train(config, VIDEOS[:4], VOCABULARY, folder=folder, device="cpu")
    return folder


@pytest.fixture(scope="module")
def trained(run: Path) -> Checkpoint:
    return checkpoints.load(run / "checkpoint")


def biased(given: Checkpoint, offset: float) -> Checkpoint:
    """The same model with the offset taken off the background's bias."""
    copy = MuConPredictor(given).to(torch.device("cpu")).checkpoint
    with torch.no_grad():
        copy.model.frame_branch.bias[list(VOCABULARY.background_ids)] -= offset
    return copy


@pytest.mark.parametrize("offset", [-1.5, 2.0])
@pytest.mark.parametrize("settings", [{}, {"beam": 3}, {"transcripts": "training"}, {"class_prior": "training"}])
def test_an_offset_is_that_bias_of_the_frame_branch(offset: float, settings: dict[str, object]):
    given = checkpoint(end=-1.0)
    given = dataclasses.replace(given, facts=training_facts(given, VIDEOS, torch.device("cpu")))
    shifted, plain = DecodingConfig(background_offset=offset, **settings), DecodingConfig(**settings)
    moved = biased(given, offset)
    ours, theirs = predict(given, features(40), decoding=shifted), predict(moved, features(40), decoding=plain)
    known = [
        align_transcript(one, features(40), (0, 1, 0), decoding=how) for one, how in ((given, shifted), (moved, plain))
    ]
    for mine, other in ((ours, theirs), known):
        for name in mine.segmentations:
            assert (
                mine.segmentations[name].to_frame_labels().tolist()
                == other.segmentations[name].to_frame_labels().tolist()
            )
            assert mine.confidences[name] == pytest.approx(other.confidences[name], abs=1e-5)


def test_offsets_of_a_network_and_of_arrays_are_the_same():
    given = checkpoint()
    log_probs = given.model.encode(features(12))[1].numpy()
    labels = lowered(log_probs, VOCABULARY.background_ids, 0.7).argmax(1)
    found = predict(given, features(12), decoding=DecodingConfig(background_offset=0.7)).segmentations["frames"]
    assert found.to_frame_labels().tolist() == labels.tolist()


def test_the_labelled_recordings_of_a_training_give_its_offset(trained: Checkpoint):
    offset = background_offset(trained.facts, trained.config.decoding)
    assert np.isfinite(offset)
    assert offset == trained.facts.background_offsets["labelled"]
    explicit = DecodingConfig(background_offset=offset)
    ours, theirs = (predict(trained, features(30), decoding=one) for one in (trained.config.decoding, explicit))
    assert ours.confidences == theirs.confidences


def test_a_stated_share_is_the_share_of_the_aligned_training_frames(trained: Checkpoint):
    predictor = MuConPredictor(trained).prepared(VIDEOS[:4], SHARE)
    offset = background_offset(predictor.checkpoint.facts, SHARE)
    recordings = observed(trained, VIDEOS[:4], torch.device("cpu"))
    assert aligned(recordings, offset).share == pytest.approx(0.3, abs=0.06)
    assert predictor.prepared([], SHARE) is predictor
    other = dataclasses.replace(SHARE, background_share=0.5)
    with refused("missing", "decoding.background_rule", "share", n=1):
        predict(predictor.checkpoint, features(12), decoding=other)
    with refused("missing", "decoding.background_rule", "share", n=1):
        predict(trained, features(12), decoding=SHARE)


def test_held_out_recordings_are_those_that_training_left_out(trained: Checkpoint):
    decoding = DecodingConfig(background_rule="held_out")
    found = MuConPredictor(trained).prepared(VIDEOS, decoding).checkpoint.facts
    assert 0 <= found.background_offsets["held_out"] <= 3
    with refused("missing", "decoding.background_rule", "held_out", n=1):
        MuConPredictor(trained).prepared(VIDEOS[:4], decoding)
    with refused("missing", "decoding.background_rule", "held_out", n=1):
        MuConPredictor(trained).prepared([dataclasses.replace(video, lengths=None) for video in VIDEOS], decoding)


@pytest.mark.parametrize("decoding", [SHARE, DecodingConfig(background_rule="score")])
def test_rules_without_labels_read_none(trained: Checkpoint, decoding: DecodingConfig):
    silent = [dataclasses.replace(video, lengths=None) for video in VIDEOS[:4]]
    offsets = [
        MuConPredictor(trained).prepared(some, decoding).checkpoint.facts.background_offsets
        for some in (silent, VIDEOS[:4])
    ]
    assert offsets[0] == offsets[1]


def test_an_evaluation_computes_the_offset_that_it_needs(trained: Checkpoint):
    scores = evaluate(MuConPredictor(trained), VIDEOS[4:], decoding=SHARE, training_videos=VIDEOS[:4]).scores
    assert scores["full"]["mof"] >= 0


@pytest.mark.parametrize(
    ("settings", "vocabulary"),
    [
        ({"decoding.background_rule": "labelled"}, VOCABULARY),
        ({"decoding.background_rule": "score"}, Vocabulary(VOCABULARY.actions)),
    ],
)
def test_a_rule_that_must_fail_after_training_is_refused_before_it(tmp_path: Path, settings, vocabulary):
    config = small_config().with_values(settings)
    with refused("missing", "decoding.background_rule", settings["decoding.background_rule"], n=1):
        train(config, VIDEOS, vocabulary, folder=tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())


def test_the_shares_of_a_run_are_those_of_its_alignments_and_posteriors(run: Path, trained: Checkpoint):
    shares = background_shares(run)
    labels, posteriors = [], []
    for video in VIDEOS[:4]:
        found = align_transcript(trained, video.features(), video.transcript, decoding=DecodingConfig())
        labels.append(found.segmentations["full"].to_frame_labels())
        posteriors.append(trained.model.encode(video.features())[1].exp()[:, 0].numpy())
    assert shares.aligned == pytest.approx(np.mean(np.concatenate(labels) == 0))
    assert shares.posterior == pytest.approx(np.mean(np.concatenate(posteriors)), rel=1e-5)


def test_a_gap_between_the_shares_is_a_problem():
    assert BackgroundShares(0.40, 0.31).problem() is None
    assert BackgroundShares(0.40, 0.25).problem().value == (0.4, 0.25)
    assert {"40", "25"} <= set(str(BackgroundShares(0.404, 0.25)).split())

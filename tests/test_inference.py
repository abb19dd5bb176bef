"""The three predictions of a recording, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from mucon.checkpoint import Checkpoint, Progress
from mucon.decoding.config import DecodingConfig
from mucon.decoding.length_priors import Flat, Poisson, PoissonPerClass
from mucon.errors import InputError
from mucon.inference import PREDICTIONS, align, length_prior, predict
from mucon.masks import absolute_lengths
from mucon.model import NetworkSize, build_model
from mucon.segments import Segmentation
from tests.factories import VOCABULARY, small_config
from tests.oracles_decoding import best_score_by_recursion, poisson_table, true_score

N = VOCABULARY.n_actions


def checkpoint(seed: int = 0, *, end: float = 0.0, max_segments: int = 6) -> Checkpoint:
    """A fresh network whose symbols vary; `end` makes the end symbol likelier or less likely."""
    config = small_config(seed=seed)
    size = NetworkSize(dim=5, n_actions=N, max_segments=max_segments)
    model = build_model(size, config.backbone, config.segment_branch, seed=seed)
    with torch.no_grad():
        for parameter in model.segment_branch.parameters():
            parameter.mul_(3)
        model.segment_branch.transcript_head[-1].bias[N] = end
    return Checkpoint(model.eval(), config, VOCABULARY, Progress())


def features(T: int, seed: int = 0) -> Tensor:
    return torch.randn(T, 5, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("T", [1, 2, 3, 15, 40])
@pytest.mark.parametrize("seed", range(4))
def test_every_prediction_covers_the_whole_recording(seed: int, T: int):
    found = predict(checkpoint(seed, end=-1e3), features(T))
    assert list(found.segmentations) == list(PREDICTIONS)
    for prediction in found.segmentations.values():
        assert prediction.n_frames == T
        assert (prediction.lengths >= 1).all()
    transcripts = [found.segmentations[name].transcript.tolist() for name in ("segments", "full")]
    assert transcripts[0] == transcripts[1]


def test_frames_are_the_likeliest_action_of_each_frame():
    given = checkpoint()
    log_probs, _ = given.model.predict(features(30))
    labels = predict(given, features(30), predictions=("frames",)).segmentations["frames"].to_frame_labels()
    assert labels.tolist() == log_probs.argmax(1).tolist()


def test_segments_have_the_predicted_lengths_rounded_so_that_they_sum_to_the_recording():
    given = checkpoint(end=-1e3)
    decoded = given.model.predict(features(50))[1]
    exact = absolute_lengths(decoded.log_lengths.double(), 50).numpy()
    segments = predict(given, features(50)).segmentations["segments"]
    assert segments.transcript.tolist() == list(decoded.transcript)
    assert (np.abs(segments.lengths - exact) < 1 + 1e-9)[exact >= 1].all()


@pytest.mark.parametrize("seed", range(3))
def test_full_lengths_are_the_best_for_frames_and_predicted_lengths_together(seed: int):
    given = checkpoint(seed, end=-1e3, max_segments=4)
    log_probs, decoded = given.model.predict(features(25))
    table = poisson_table(absolute_lengths(decoded.log_lengths.double(), 25).numpy(), 25)
    full = predict(given, features(25)).segmentations["full"]
    found = true_score(log_probs.numpy(), full.transcript, full.lengths, table)
    best = best_score_by_recursion(log_probs.numpy(), np.array(decoded.transcript), table)
    assert found == pytest.approx(best, rel=1e-6)


def test_frames_decide_the_full_lengths_where_no_length_is_preferred():
    truth = Segmentation.of([0, 2, 0, 1], [7, 1, 12, 5])
    log_probs = torch.full((25, N), -5.0)
    log_probs[torch.arange(25), torch.from_numpy(truth.to_frame_labels())] = -0.01
    found = align(log_probs, truth.transcript, np.full(4, 25 / 4), DecodingConfig(length_prior="none"))
    assert found.lengths.tolist() == truth.lengths.tolist()


def test_a_length_cap_holds_for_the_full_prediction():
    given = checkpoint(end=-1e3)
    full = predict(given, features(40), decoding=DecodingConfig(max_length=9)).segmentations["full"]
    assert full.n_frames == 40
    assert full.lengths.max() <= 9


def test_the_checkpoints_own_decoding_is_used_unless_another_is_given():
    given = checkpoint(end=-1e3)
    capped = given.config.override("decoding.max_length", 9)
    theirs = predict(Checkpoint(given.model, capped, VOCABULARY, Progress()), features(40))
    ours = predict(given, features(40), decoding=capped.decoding)
    for name in PREDICTIONS:
        assert theirs.segmentations[name].lengths.tolist() == ours.segmentations[name].lengths.tolist()


def test_the_prior_per_class_uses_the_mean_of_that_actions_predicted_lengths():
    transcript, lengths = np.array([1, 0, 1]), np.array([4.0, 10.0, 8.0])
    per_class = length_prior(transcript, lengths, N, DecodingConfig(length_prior="class"))
    assert isinstance(per_class, PoissonPerClass)
    ours = align(torch.zeros(22, N), transcript, lengths, DecodingConfig(length_prior="class")).lengths
    averaged = align(torch.zeros(22, N), transcript, np.array([6.0, 10.0, 6.0]), DecodingConfig()).lengths
    per_segment = align(torch.zeros(22, N), transcript, lengths, DecodingConfig()).lengths
    assert ours.tolist() == averaged.tolist() != per_segment.tolist()
    assert isinstance(length_prior(transcript, lengths, N, DecodingConfig()), Poisson)
    assert isinstance(length_prior(transcript, lengths, N, DecodingConfig(length_prior="none")), Flat)


def test_an_end_symbol_that_comes_first_gives_empty_segmentations_and_frames_all_the_same():
    found = predict(checkpoint(end=1e4), features(12))
    assert not found.cut
    assert found.segmentations["frames"].n_frames == 12
    assert [found.segmentations[name].n_segments for name in ("segments", "full")] == [0, 0]


def test_a_transcript_that_does_not_end_is_said_to_be_cut():
    found = predict(checkpoint(end=-1e4, max_segments=3), features(12))
    assert found.cut
    assert found.segmentations["full"].n_segments == 3


def test_more_segments_than_frames_are_cut_to_one_frame_each():
    found = predict(checkpoint(end=-1e4, max_segments=6), features(4))
    assert found.cut
    for name in ("segments", "full"):
        assert found.segmentations[name].lengths.tolist() == [1, 1, 1, 1]


def test_only_the_predictions_that_are_asked_for_are_made():
    assert list(predict(checkpoint(), features(9), predictions=("segments",)).segmentations) == ["segments"]
    with pytest.raises(InputError, match="predictions are frames, segments, full, not 'viterbi': choose"):
        predict(checkpoint(), features(9), predictions=("frames", "viterbi"))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((9, 4), r"\[T, 5\], not \[9, 4\]: give one row per frame"),
        ((5, 9), r"not \[5, 9\]; it looks transposed: "),
        ((9,), r"not \[9\]: "),
        ((0, 5), r"not \[0, 5\]: "),
        ((1, 9, 5), r"not \[1, 9, 5\]: "),
    ],
)
def test_features_of_another_shape_are_refused(shape: tuple[int, ...], said: str):
    with pytest.raises(InputError, match=said):
        predict(checkpoint(), torch.zeros(shape))


def test_predicting_changes_nothing_and_draws_nothing():
    given, given_features = checkpoint(), features(20)
    before = {name: tensor.clone() for name, tensor in given.model.state_dict().items()}
    generator, original = torch.get_rng_state(), given_features.clone()
    first, second = (predict(given, given_features).segmentations for _ in range(2))
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.equal(given_features, original)
    assert all(torch.equal(tensor, before[name]) for name, tensor in given.model.state_dict().items())
    for name in PREDICTIONS:
        assert first[name].to_frame_labels().tolist() == second[name].to_frame_labels().tolist()

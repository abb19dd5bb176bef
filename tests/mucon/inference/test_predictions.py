"""The three predictions of a recording, and refused requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor

from mucon.checkpoint import Checkpoint, Progress, weights_sha256
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import align, length_prior
from mucon.decoding.length_priors import Flat, Poisson, PoissonPerClass
from mucon.decoding.rounding import largest_remainder
from mucon.errors import InputError
from mucon.inference import PREDICTIONS, align_transcript, predict
from mucon.inference.predictions import begin
from mucon.masks import absolute_lengths
from mucon.model import NetworkSize, build_model
from mucon.segments import Segmentation
from tests.helpers.factories import VOCABULARY, network_output, small_config
from tests.helpers.oracles_decoding import best_score_by_recursion, poisson_table, true_score
from tests.helpers.refusals import refused

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


def test_frames_are_the_most_likely_action_of_each_frame():
    given = checkpoint()
    log_probs, _ = network_output(given.model, features(30))
    labels = predict(given, features(30), predictions=("frames",)).segmentations["frames"].to_frame_labels()
    assert labels.tolist() == log_probs.argmax(1).tolist()


def test_segments_have_the_predicted_lengths_rounded_so_that_they_sum_to_the_recording():
    given = checkpoint(end=-1e3)
    decoded = network_output(given.model, features(50))[1]
    exact = absolute_lengths(decoded.log_lengths.double(), 50).numpy()
    segments = predict(given, features(50)).segmentations["segments"]
    assert segments.transcript.tolist() == list(decoded.transcript)
    assert (np.abs(segments.lengths - exact) < 1 + 1e-9)[exact >= 1].all()


@pytest.mark.parametrize("seed", range(3))
def test_full_lengths_are_the_best_for_frames_and_predicted_lengths_together(seed: int):
    given = checkpoint(seed, end=-1e3, max_segments=4)
    log_probs, decoded = network_output(given.model, features(25))
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


@pytest.mark.parametrize("family", ["equal", "equal_negative_binomial"])
def test_a_prior_about_equal_lengths_ignores_the_predicted_ones(family):
    transcript, equal = np.array([1, 0, 1]), np.full(3, 22 / 3)
    decoding = DecodingConfig(length_prior=family)
    same = DecodingConfig(length_prior="segment" if family == "equal" else "negative_binomial")
    logits = torch.randn(22, N, generator=torch.Generator().manual_seed(3))
    found = [align(logits.numpy(), transcript, np.array(lengths), decoding) for lengths in ([4, 10, 8.0], [1, 1, 20.0])]
    assert found[0].lengths.tolist() == found[1].lengths.tolist()
    assert found[0].lengths.tolist() == align(logits.numpy(), transcript, equal, same).lengths.tolist()
    assert align(np.zeros((21, N)), transcript, np.array([4, 10, 7.0]), decoding).lengths.tolist() == [7, 7, 7]


def test_an_end_symbol_that_comes_first_gives_empty_segmentations_and_frames_all_the_same():
    found = predict(checkpoint(end=1e4), features(12))
    assert not found.cut
    assert found.segmentations["frames"].n_frames == 12
    assert [found.segmentations[name].n_segments for name in ("segments", "full")] == [0, 0]


def test_a_transcript_that_does_not_end_is_cut():
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
    with refused("unknown", "prediction", "viterbi", n=1):
        predict(checkpoint(), features(9), predictions=("frames", "viterbi"))


@pytest.mark.parametrize(
    ("shape", "transposed"), [((9, 4), False), ((5, 9), True), ((9,), False), ((0, 5), False), ((1, 9, 5), False)]
)
def test_features_of_another_shape_are_refused(shape: tuple[int, ...], transposed: bool):
    with refused("shape", "features", list(shape), n=1) as refusal:
        predict(checkpoint(), torch.zeros(shape))
    assert "[T, 5]" in str(refusal.problems[0])
    assert ("transposed" in refusal.problems[0].hint) == transposed


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


GIVEN = (0, 2, 2, 1)


@pytest.mark.parametrize("T", [4, 5, 15, 40])
@pytest.mark.parametrize("seed", range(3))
def test_every_aligned_prediction_has_the_given_transcript_and_covers_the_recording(seed: int, T: int):
    found = align_transcript(checkpoint(seed), features(T), GIVEN)
    assert not found.cut
    assert list(found.segmentations) == list(PREDICTIONS)
    for prediction in found.segmentations.values():
        assert tuple(prediction.transcript) == GIVEN
        assert prediction.n_frames == T
        assert (prediction.lengths >= 1).all()


def test_aligned_segments_have_the_lengths_under_teacher_forcing():
    given = checkpoint()
    with torch.no_grad():
        log_lengths = given.model(features(50), torch.tensor(GIVEN)).log_lengths
    exact = absolute_lengths(log_lengths.double(), 50).numpy()
    found = align_transcript(given, features(50), GIVEN).segmentations["segments"]
    assert found.lengths.tolist() == largest_remainder(exact, 50).tolist()
    assert exact.std() > 1


@pytest.mark.parametrize("seed", range(3))
def test_aligned_full_and_frames_are_the_best_with_and_without_preferred_lengths(seed: int):
    given = checkpoint(seed)
    log_probs, _ = network_output(given.model, features(18))
    with torch.no_grad():
        log_lengths = given.model(features(18), torch.tensor(GIVEN)).log_lengths
    found = align_transcript(given, features(18), GIVEN).segmentations
    poisson = poisson_table(absolute_lengths(log_lengths.double(), 18).numpy(), 18)
    for name, table in (("full", poisson), ("frames", np.zeros_like(poisson))):
        score = true_score(log_probs.numpy(), found[name].transcript, found[name].lengths, table)
        best = best_score_by_recursion(log_probs.numpy(), np.array(GIVEN), table)
        assert score == pytest.approx(best, rel=1e-6), name


@pytest.mark.parametrize("seed", range(4))
def test_the_transcript_that_the_network_names_itself_is_aligned_as_it_is_segmented(seed: int):
    given = checkpoint(seed, end=-1e3, max_segments=5)
    segmented = predict(given, features(60)).segmentations
    aligned = align_transcript(given, features(60), segmented["full"].transcript.tolist()).segmentations
    for name in ("segments", "full"):
        assert np.abs(aligned[name].lengths - segmented[name].lengths).max() <= 1


def test_a_length_cap_holds_for_the_aligned_full_prediction_alone():
    capped = DecodingConfig(max_length=11)
    free = align_transcript(checkpoint(), features(40), GIVEN).segmentations
    found = align_transcript(checkpoint(), features(40), GIVEN, decoding=capped).segmentations
    assert found["full"].lengths.max() <= 11
    assert found["frames"].lengths.tolist() == free["frames"].lengths.tolist()
    with pytest.raises(InputError, match=r"\b40\b"):
        align_transcript(checkpoint(), features(40), GIVEN, decoding=DecodingConfig(max_length=9))


@pytest.mark.parametrize(
    ("transcript", "rule", "value"),
    [((), "missing", None), ((0, 1, 4), "range", [4]), ((-1, 1), "range", [-1]), ((0, 1) * 5, "range", 10)],
)
def test_a_transcript_that_cannot_be_aligned_is_refused(transcript: tuple[int, ...], rule: str, value: object):
    with refused(rule, "transcript", value, n=1):
        align_transcript(checkpoint(), features(9), transcript)


def test_aligning_refuses_the_same_requests_as_segmenting():
    with refused("unknown", "prediction", "viterbi", n=1):
        align_transcript(checkpoint(), features(9), GIVEN, predictions=("viterbi",))
    with refused("shape", "features", [5, 9], n=1):
        align_transcript(checkpoint(), torch.zeros(5, 9), GIVEN)
    assert list(align_transcript(checkpoint(), features(9), GIVEN, predictions=("full",)).segmentations) == ["full"]


def test_aligning_changes_nothing_and_draws_nothing():
    given, given_features, transcript = checkpoint(), features(20), list(GIVEN)
    before, generator = weights_sha256(given.model), torch.get_rng_state()
    first, second = (align_transcript(given, given_features, transcript).segmentations for _ in range(2))
    assert torch.equal(torch.get_rng_state(), generator)
    assert (weights_sha256(given.model), transcript) == (before, list(GIVEN))
    assert all(parameter.grad is None for parameter in given.model.parameters())
    for name in PREDICTIONS:
        assert first[name].lengths.tolist() == second[name].lengths.tolist()


@pytest.mark.parametrize("decoding", [DecodingConfig(), DecodingConfig(beam=3), DecodingConfig(max_length=30)])
def test_the_order_and_number_of_predictions_do_not_change_them(decoding: DecodingConfig):
    given, x = checkpoint(1, end=1.0), features(30, 1)
    together = predict(given, x, decoding=decoding).segmentations
    backwards = predict(given, x, predictions=PREDICTIONS[::-1], decoding=decoding)
    assert list(backwards.segmentations) == list(backwards.seconds) == list(PREDICTIONS[::-1])
    for name in PREDICTIONS:
        alone = predict(given, x, predictions=(name,), decoding=decoding)
        assert list(alone.seconds) == [name]
        for found in (alone.segmentations[name], backwards.segmentations[name]):
            assert found.transcript.tolist() == together[name].transcript.tolist()
            assert found.lengths.tolist() == together[name].lengths.tolist()


@pytest.mark.parametrize(
    ("predictions", "beam", "cut"),
    [(("frames",), 1, False), (("segments",), 1, True), (("full",), 1, True), (("full",), 2, False),
     (("segments", "full"), 2, True)],
)  # fmt: skip
def test_only_a_prediction_with_the_greedy_transcript_is_cut(predictions: tuple[str, ...], beam: int, cut: bool):
    found = predict(
        checkpoint(end=-1e4, max_segments=3),
        features(12),
        predictions=predictions,
        decoding=DecodingConfig(beam=beam),
    )
    assert found.cut == cut


def test_decoding_may_end_in_another_thread():
    given, x = checkpoint(2, end=-1e3), features(30)
    end = begin(given, x)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(end).result()
    for name, expected in predict(given, x).segmentations.items():
        assert found.segmentations[name].lengths.tolist() == expected.lengths.tolist()

"""Confidences of segments, and the alternatives of the beam."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mucon.decoding.config import DecodingConfig
from mucon.inference import PREDICTIONS, align_transcript, predict
from mucon.inference.predictions import begin
from tests.helpers.factories import network_output
from tests.helpers.oracles_decoding import best_score_by_recursion, poisson_table
from tests.helpers.refusals import refused
from tests.mucon.inference.test_predictions import checkpoint, features


@pytest.mark.parametrize("aligned", [False, True])
def test_the_confidence_of_a_segment_is_the_mean_probability_of_its_action(aligned: bool):
    given, x = checkpoint(end=-1e3), features(40)
    found = align_transcript(given, x, (0, 2, 2, 1)) if aligned else predict(given, x)
    probabilities = network_output(given.model, x)[0].exp().double().numpy()
    assert list(found.confidences) == list(PREDICTIONS)
    for name, segmentation in found.segmentations.items():
        expected = [probabilities[start:stop, action].mean() for action, start, stop in segmentation.spans()]
        np.testing.assert_allclose(found.confidences[name], expected, rtol=1e-6)


def test_alternatives_are_the_beams_other_transcripts_by_their_joint_score_and_leave_the_prediction_alone():
    given, x = checkpoint(1, end=1.0), features(25)
    plain = predict(given, x)
    found = begin(given, x, alternatives=4)().whole()
    for name in PREDICTIONS:
        assert found.segmentations[name].transcript.tolist() == plain.segmentations[name].transcript.tolist()
        assert found.segmentations[name].lengths.tolist() == plain.segmentations[name].lengths.tolist()
    transcripts = [tuple(one.segmentation.transcript.tolist()) for one in found.alternatives]
    own = tuple(found.segmentations["full"].transcript.tolist())
    assert 0 < len(transcripts) <= 4
    assert len({own, *transcripts}) == len(transcripts) + 1
    assert [one.segmentation.n_frames for one in found.alternatives] == [25] * len(transcripts)
    scores = [one.score for one in found.alternatives]
    assert scores == sorted(scores, reverse=True)

    log_probs, _ = network_output(given.model, x)
    _, encoded = given.model.name_segments(given.model.encode(x)[0])
    for decoded in given.model.likeliest_segments(encoded, 5):
        if decoded.transcript and len(decoded.transcript) <= 25:
            lengths = np.exp(decoded.log_lengths.double().numpy())
            table = poisson_table(25 * lengths / lengths.sum(), 25)
            expected = decoded.log_prob + best_score_by_recursion(
                log_probs.numpy(), np.array(decoded.transcript), table
            )
            score = dict(zip(transcripts, scores, strict=True)).get(decoded.transcript, found.score)
            assert score == pytest.approx(expected, rel=1e-6)


def test_the_prediction_of_a_beam_scores_at_least_as_well_as_its_alternatives():
    given = checkpoint(1, end=1.0)
    found = begin(given, features(25), decoding=DecodingConfig(beam=5), alternatives=3)()
    assert found.score is not None
    assert found.score >= max(one.score for one in found.alternatives)


def test_alternatives_that_cannot_fill_the_recording_are_left_out():
    given = checkpoint(1, end=1.0)
    found = begin(given, features(40), decoding=DecodingConfig(max_length=9), alternatives=4)()
    assert all(one.segmentation.lengths.max() <= 9 for one in found.alternatives)


@pytest.mark.parametrize(
    ("predictions", "decoding", "rule"),
    [
        (("frames",), {}, "unsupported"),
        (("full",), {"transcripts": "training"}, "unsupported"),
        (("full",), {"method": "published"}, "unsupported"),
    ],
)
def test_predictions_without_a_beam_have_no_alternatives(predictions, decoding: dict[str, str], rule: str):
    given = dataclasses.replace(DecodingConfig(), **decoding)
    with refused(rule, "alternatives", 2, n=1):
        begin(checkpoint(), features(9), predictions=predictions, decoding=given, alternatives=2)


def test_a_negative_number_of_alternatives_is_refused():
    with refused("range", "alternatives", -1, n=1):
        begin(checkpoint(), features(9), alternatives=-1)

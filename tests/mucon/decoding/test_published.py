from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.decoding.alignment import FLOOR, best_lengths
from mucon.decoding.length_priors import PoissonPerClass
from mucon.decoding.published import published_lengths
from tests.helpers.oracles_decoding import poisson_table, published_score_of_all, true_score
from tests.helpers.refusals import ANY, refused


@st.composite
def problems(draw):
    step = draw(st.integers(1, 4))
    T = draw(st.integers(step, 9 * step + 3))
    M, N = draw(st.integers(1, min(T // step, 4))), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    log_probs = np.log(rng.dirichlet(np.full(N, rng.choice([0.3, 3.0])), T))
    log_probs = np.maximum(log_probs, FLOOR)
    transcript = draw(st.lists(st.integers(0, N - 1), min_size=M, max_size=M))
    means = draw(st.lists(st.sampled_from([0.2, 0.7, 1.0, 3.5, 8.0, 29.9]), min_size=N, max_size=N))
    longest = -(-(T // step) // M)
    max_length = draw(st.sampled_from([2000, longest * step, (longest + 1) * step - 1]))
    return log_probs, transcript, means, step, max_length


@settings(max_examples=100, deadline=None)
@given(problems())
def test_the_score_is_that_of_trying_all_steps(problem):
    log_probs, transcript, means, step, max_length = problem
    labels, lengths, score = published_lengths(log_probs, transcript, means, step=step, max_length=max_length)
    assert score == pytest.approx(published_score_of_all(*problem), rel=1e-11, abs=1e-11)
    left_over = len(log_probs) % step
    whole = lengths.copy()
    whole[-1] -= left_over
    assert lengths.sum() == len(labels) == len(log_probs)
    assert (whole % step == 0).all()
    assert step <= whole.min() <= whole.max() <= max_length
    assert labels.tolist() == [transcript[-1]] * left_over + np.repeat(transcript, whole).tolist()


@settings(max_examples=50, deadline=None)
@given(problems())
def test_exact_decoding_never_scores_below_the_published_path(problem):
    log_probs, transcript, means, step, max_length = problem
    _, published, _ = published_lengths(log_probs, transcript, means, step=step, max_length=max_length)
    table = poisson_table(np.asarray(means)[transcript], len(log_probs))
    _, score = best_lengths(log_probs, transcript, PoissonPerClass(means))
    path = true_score(log_probs, transcript, published, table)
    assert score >= path - 1e-11 * abs(path) - 1e-11


def test_a_border_comes_one_step_early():
    labels = np.repeat([0, 1], [60, 60])
    log_probs = np.where(labels[:, None] == [0, 1], np.log(0.99), np.log(0.01))
    for step, lengths in ((1, [59, 61]), (10, [50, 70]), (30, [30, 90])):
        assert published_lengths(log_probs, [0, 1], [60.0, 60.0], step=step)[1].tolist() == lengths


def test_frames_after_the_last_step_are_labelled_at_the_start():
    log_probs = np.zeros((65, 2))
    labels, lengths, _ = published_lengths(log_probs, [0, 1], [30.0, 30.0])
    assert lengths.tolist() == [30, 35]
    assert labels.tolist() == [1] * 5 + [0] * 30 + [1] * 30


def test_no_segment_lasts_longer_than_1980_frames_in_steps_of_30():
    labels = np.repeat([0, 1], [2500, 500])
    log_probs = np.where(labels[:, None] == [0, 1], np.log(0.99), np.log(0.01))
    assert published_lengths(log_probs, [0, 1], [2500.0, 500.0])[1].tolist() == [1980, 1020]


def test_evidence_of_minus_infinity_counts_as_the_floor():
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.repeat([[1.0, 0.0], [0.0, 1.0]], 20, axis=0))
    found = published_lengths(log_probs, [0, 1], [20.0, 20.0], step=5)
    floored = published_lengths(np.maximum(log_probs, FLOOR), [0, 1], [20.0, 20.0], step=5)
    assert found[1].tolist() == floored[1].tolist() == [15, 25]
    assert found[2] == floored[2]


LOG_PROBS = np.log(np.full((65, 3), 1 / 3))
NAN = np.where(np.arange(65)[:, None] == 7, np.nan, LOG_PROBS)


@pytest.mark.parametrize(
    ("log_probs", "transcript", "means", "options", "rule", "place", "value", "expected"),
    [
        (LOG_PROBS, [], [1.0] * 3, {}, "missing", "transcript", None, "one"),
        (LOG_PROBS, [0, 3], [1.0] * 3, {}, "range", "transcript[1]", 3, "0 to 2"),
        (LOG_PROBS, [0, 1], [1.0] * 2, {}, "shape", "class_means", 2, "3"),
        (LOG_PROBS, [0, 1], [1.0, np.nan, 1.0], {}, "range", "mean of action 1", ANY, "finite"),
        (LOG_PROBS, [0, 1], [1.0] * 3, {"step": 0}, "range", "step", 0, "at least 1"),
        (LOG_PROBS, [0, 1, 0], [1.0] * 3, {}, "mismatch", "step", 30, "at most 21"),
        (LOG_PROBS, [0] * 66, [1.0] * 3, {}, "mismatch", "transcript", 66, "at most 65"),
        (LOG_PROBS, [0], [1.0] * 3, {"max_length": 59}, "mismatch", "max_length", 30, "at least 65"),
        (NAN, [0, 1], [1.0] * 3, {}, "range", "frame_log_probs[7, 0]", ANY, "-inf"),
    ],
)
def test_what_the_published_program_cannot_decode_is_refused_by_name(
    log_probs, transcript, means, options, rule, place, value, expected
):
    with refused(rule, place, value, n=1) as refusal:
        published_lengths(log_probs, transcript, means, **options)
    assert expected in refusal.problems[0].expected


def test_the_arguments_are_left_as_they_were():
    log_probs, transcript, means = LOG_PROBS.astype(np.float32), np.array([0, 2]), np.array([30.0, 0.0, 35.0])
    copies = log_probs.copy(), transcript.copy(), means.copy()
    published_lengths(log_probs, transcript, means)
    for after, before in zip((log_probs, transcript, means), copies, strict=True):
        np.testing.assert_array_equal(after, before)

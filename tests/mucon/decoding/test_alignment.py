from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mucon.decoding.alignment import FLOOR, best_lengths
from mucon.decoding.length_priors import Flat, Poisson
from tests.helpers.oracles_decoding import Tabled, best_score_by_recursion, best_score_of_all, poisson_table, true_score
from tests.helpers.refusals import refused


def random_log_probs(rng: np.random.Generator, T: int, N: int) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(rng.dirichlet(np.full(N, rng.choice([0.05, 0.5, 5.0])), T))


def random_sizes(rng: np.random.Generator, longest: int = 60) -> tuple[int, int, int]:
    T = int(rng.integers(1, longest))
    M = T if rng.random() < 0.1 else int(rng.integers(1, min(T, 8) + 1))
    return T, M, int(rng.integers(1, 5))


def assert_best(log_probs, transcript, prior, table, cap=None) -> None:
    """The lengths are valid, the score is theirs, and no lengths score higher."""
    lengths, score = best_lengths(log_probs, transcript, prior, max_length=cap)
    assert lengths.dtype == np.int64
    assert lengths.sum() == len(log_probs)
    assert lengths.min() >= 1
    assert lengths.max() <= (cap or len(log_probs))
    assert score == pytest.approx(true_score(log_probs, transcript, lengths, table), rel=1e-11, abs=1e-11)
    best = best_score_by_recursion(log_probs, transcript, table, cap)
    assert score == pytest.approx(best, rel=1e-11, abs=1e-11)


MEANS = {
    "tiny": [0.001],
    "small": [0.3],
    "under a frame to long": [0.001, 0.3, 1.0, 5.0, 20.0, 5000.0],
    "long": [5000.0],
    "underflowed": [0.0, 12.5],
}


@pytest.mark.parametrize("means", MEANS.values(), ids=MEANS.keys())
def test_poisson_random_cases_reach_the_score_of_trying_every_start(means):
    rng = np.random.default_rng(len(means) + int(1000 * means[0]))
    for _ in range(400):
        T, M, N = random_sizes(rng)
        transcript = rng.integers(0, N, M)
        drawn = rng.choice(means, M)
        table = poisson_table(np.maximum(drawn, 1e-30), T)
        assert_best(random_log_probs(rng, T, N), transcript, Poisson(drawn), table)


def test_a_length_cap_reaches_the_score_of_trying_every_allowed_start():
    rng = np.random.default_rng(1)
    for _ in range(800):
        T, M, N = random_sizes(rng)
        cap = int(rng.integers(-(-T // M), T + 3))
        means = rng.choice([0.001, 0.3, 4.0, 30.0, 5000.0], M)
        transcript = rng.integers(0, N, M)
        assert_best(random_log_probs(rng, T, N), transcript, Poisson(means), poisson_table(means, T + 3), cap)


def test_evidence_of_minus_infinity_reaches_the_score_of_trying_every_start():
    rng = np.random.default_rng(2)
    for i in range(600):
        T, M, N = random_sizes(rng)
        log_probs = random_log_probs(rng, T, N)
        log_probs[rng.random((T, N)) < (0.3 if i % 2 else 0.95)] = -np.inf
        means = rng.choice([0.3, 3.0, 40.0], M)
        cap = None if i % 3 else int(rng.integers(-(-T // M), T + 1))
        assert_best(log_probs, rng.integers(0, N, M), Poisson(means), poisson_table(means, T), cap)


def test_ties_and_flat_priors_reach_the_score_of_trying_every_start():
    rng = np.random.default_rng(3)
    for i in range(600):
        T, M, N = random_sizes(rng)
        log_probs = -rng.integers(0, 2, (T, N)).astype(np.float64) if i % 4 else np.zeros((T, N))
        cap = None if i % 3 else int(rng.integers(-(-T // M), T + 1))
        assert_best(log_probs, rng.integers(0, N, M), Flat(), np.zeros((M, T + 1)), cap)


def test_priors_that_are_not_concave_reach_the_score_of_trying_every_start():
    rng = np.random.default_rng(4)
    for i in range(600):
        T, M, N = random_sizes(rng)
        table = rng.normal(scale=3.0, size=(M, T + 1))
        if i % 2:
            table[rng.random(table.shape) < 0.2] = -np.inf
            table[:, -(-T // M)] = table[:, T // M] = 0.0
        cap = None if i % 3 else int(rng.integers(-(-T // M), T + 1))
        assert_best(random_log_probs(rng, T, N), rng.integers(0, N, M), Tabled(table), table, cap)


def test_concave_tables_take_the_fast_path_to_the_same_score():
    rng = np.random.default_rng(5)
    for _ in range(400):
        T, M, N = random_sizes(rng)
        slopes = np.sort(rng.integers(-9, 10, (M, T + 1)), axis=1)[:, ::-1]
        table = np.cumsum(slopes, axis=1).astype(np.float64)
        assert Tabled(table).is_log_concave
        assert_best(random_log_probs(rng, T, N), rng.integers(0, N, M), Tabled(table), table)


def test_tiny_cases_reach_the_score_of_trying_all_lengths():
    rng = np.random.default_rng(6)
    for i in range(150):
        T = int(rng.integers(1, 9))
        M, N = int(rng.integers(1, T + 1)), 3
        log_probs = random_log_probs(rng, T, N)
        transcript = rng.integers(0, N, M)
        means = rng.choice([0.001, 0.3, 2.0, 5000.0], M)
        cap = None if i % 2 else int(rng.integers(-(-T // M), T + 1))
        _, score = best_lengths(log_probs, transcript, Poisson(means), max_length=cap)
        best = best_score_of_all(log_probs, transcript, poisson_table(means, T), cap)
        assert score == pytest.approx(best, rel=1e-12)


@st.composite
def problems(draw):
    T = draw(st.integers(1, 14))
    M, N = draw(st.integers(1, T)), draw(st.integers(1, 3))
    values = st.one_of(st.integers(-4, 0).map(float), st.just(-np.inf), st.floats(-80, 0))
    log_probs = draw(arrays(np.float64, (T, N), elements=values))
    transcript = draw(st.lists(st.integers(0, N - 1), min_size=M, max_size=M))
    means = draw(st.lists(st.sampled_from([0.001, 0.3, 1.0, 2.5, 7.0, 5000.0]), min_size=M, max_size=M))
    cap = draw(st.one_of(st.none(), st.integers(-(-T // M), T)))
    return log_probs, transcript, means, cap


@settings(max_examples=300, deadline=None)
@given(problems())
def test_any_small_problem_reaches_the_score_of_trying_every_start(problem):
    log_probs, transcript, means, cap = problem
    assert_best(log_probs, transcript, Poisson(means), poisson_table(means, len(log_probs)), cap)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_a_recording_played_backwards_has_the_same_score(problem):
    log_probs, transcript, means, cap = problem
    _, forwards = best_lengths(log_probs, transcript, Poisson(means), max_length=cap)
    _, backwards = best_lengths(log_probs[::-1], transcript[::-1], Poisson(means[::-1]), max_length=cap)
    assert forwards == pytest.approx(backwards, rel=1e-12, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(problems(), st.floats(-3, 3))
def test_the_same_added_to_every_frame_moves_only_the_score(problem, shift):
    log_probs, transcript, means, cap = problem
    log_probs = np.maximum(log_probs, -20.0)
    _, before = best_lengths(log_probs, transcript, Poisson(means), max_length=cap)
    _, after = best_lengths(log_probs + shift, transcript, Poisson(means), max_length=cap)
    assert after == pytest.approx(before + shift * len(log_probs), rel=1e-10, abs=1e-10)


def planted(lengths: list[int], transcript: list[int], N: int, seed: int, favour: float = 6.0) -> np.ndarray:
    """Noisy log probabilities in which every frame favours its planted action."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(transcript, lengths)
    logits = rng.normal(size=(len(labels), N))
    logits[np.arange(len(labels)), labels] += favour
    return (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)


def test_a_planted_segment_of_2500_frames_is_found_exactly():
    lengths, transcript = [700, 2500, 200, 300, 300], [1, 4, 0, 1, 2]
    log_probs = planted(lengths, transcript, 6, seed=0, favour=15.0)
    for prior in (Flat(), Poisson(lengths), Poisson([800.0] * 5), Poisson([0.3] * 5)):
        assert best_lengths(log_probs, transcript, prior)[0].tolist() == lengths
    capped, _ = best_lengths(log_probs, transcript, Flat(), max_length=2000)
    assert capped[1] == 2000


def test_71000_frames_are_decoded_exactly():
    rng = np.random.default_rng(0)
    lengths = rng.multinomial(71_000 - 40, rng.dirichlet(np.ones(40))) + 1
    transcript = np.arange(40) % 7
    log_probs = planted(lengths.tolist(), transcript.tolist(), 7, seed=1)
    found, score = best_lengths(log_probs, transcript, Poisson(lengths))
    labels = np.repeat(transcript, lengths)
    assert found.sum() == 71_000
    assert (np.repeat(transcript, found) == labels).mean() > 0.999
    evidence = log_probs[np.arange(71_000), labels].astype(np.float64).sum()
    assert score >= evidence + Poisson(lengths).terms(transcript, 71_000).log_probs(lengths).sum()


def test_as_many_segments_as_frames_get_one_frame_each():
    lengths, score = best_lengths(np.log([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), [0, 0, 1], Poisson([9.0, 0.001, 5000]))
    assert lengths.tolist() == [1, 1, 1]
    expected = np.log(0.9 * 0.6 * 0.8) + np.log(9.0) - 9.0 + np.log(0.001) - 0.001 + np.log(5000.0) - 5000.0
    assert score == pytest.approx(expected, rel=1e-14)


def test_one_frame_and_one_segment_are_decoded():
    lengths, score = best_lengths([[-0.5, -2.0]], [1], Flat())
    assert lengths.tolist() == [1]
    assert score == -2.0


def test_a_repeated_action_is_divided_by_the_prior_alone():
    log_probs = np.full((12, 2), np.log(0.5))
    lengths, _ = best_lengths(log_probs, [1, 1], Poisson([4.0, 8.0]))
    assert lengths.tolist() == [4, 8]


def test_minus_infinity_counts_as_the_floor():
    _, score = best_lengths([[-np.inf], [-1.0], [-500.0]], [0], Flat())
    assert score == pytest.approx(2 * FLOOR - 1.0, rel=1e-14)
    assert pytest.approx(np.log(1e-30)) == FLOOR


def test_float32_log_probabilities_are_summed_in_float64():
    value = np.float32(-0.1)
    _, score = best_lengths(np.full((20_000, 1), value), [0], Flat())
    assert score == pytest.approx(20_000 * float(value), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", np.int64])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "read-only"])
def test_the_dtype_and_layout_of_the_log_probabilities_do_not_matter(dtype, layout):
    values = -np.random.default_rng(0).integers(0, 9, (30, 4))
    array = np.asarray(values, dtype=dtype, order="F" if layout == "F" else "C")
    if layout == "strided":
        array = np.repeat(array, 2, axis=0)[::2]
    if layout == "read-only":
        array.flags.writeable = False
    before = array.copy()
    lengths, score = best_lengths(array, [0, 3, 1], Poisson([5.0, 9.0, 16.0]))
    expected, expected_score = best_lengths(values.astype(np.float64), [0, 3, 1], Poisson([5.0, 9.0, 16.0]))
    assert (lengths.tolist(), score) == (expected.tolist(), expected_score)
    np.testing.assert_array_equal(array, before)


LOG_PROBS = np.log(np.full((5, 3), 1 / 3))


@pytest.mark.parametrize(
    ("arguments", "rule", "place", "value", "expected"),
    [
        ((LOG_PROBS, [], Flat(), None), "missing", "transcript", None, "one"),
        ((LOG_PROBS, [0, 3], Flat(), None), "range", "transcript[1]", 3, "0 to 2"),
        ((LOG_PROBS, [-1, 0], Flat(), None), "range", "transcript[0]", -1, "0 to 2"),
        ((LOG_PROBS, [0] * 6, Flat(), None), "mismatch", "transcript", 6, "5"),
        ((LOG_PROBS[:0], [0], Flat(), None), "mismatch", "transcript", 1, "0"),
        ((LOG_PROBS, [0, 1], Flat(), 2), "mismatch", "max_length", 2, "at least 3"),
        ((LOG_PROBS, [0, 1], Flat(), 0), "range", "max_length", 0, "at least 1"),
        ((LOG_PROBS[0], [0], Flat(), None), "shape", "frame_log_probs", [3], "[T, N]"),
        ((LOG_PROBS, [0, 1], Poisson([1.0]), None), "shape", "number of means", 1, "2"),
        ((LOG_PROBS, [0, 1], Tabled(np.zeros((2, 3))), None), "mismatch", "max_length", 2, "at least 3"),
        ((LOG_PROBS, [0, 1], Tabled([[0, -np.inf, 0, -np.inf, 0]] * 2), None), "mismatch", "length prior", 2, ""),
    ],
)
def test_a_problem_without_solution_is_refused_by_name(arguments, rule, place, value, expected):
    log_probs, transcript, prior, cap = arguments
    with refused(rule, place, value, n=1) as refusal:
        best_lengths(log_probs, transcript, prior, max_length=cap)
    assert expected in refusal.problems[0].expected


def test_all_actions_outside_the_vocabulary_are_refused_at_once():
    with refused("range", n=2) as refusal:
        best_lengths(LOG_PROBS, [3, 0, -2], Flat())
    assert (refusal.places, refusal.values) == (["transcript[0]", "transcript[2]"], [3, -2])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_plus_infinity_are_refused_with_their_place(value, dtype):
    log_probs = LOG_PROBS.astype(dtype)
    log_probs[3, 1] = value
    with refused("range", "frame_log_probs[3, 1]", n=1) as refusal:
        best_lengths(log_probs, [0, 1], Flat())
    assert repr(refusal.values[0]) == repr(float(value))
    assert best_lengths(log_probs, [0, 2], Flat())[0].sum() == 5, "an action that is not in the transcript is not read"


def test_numba_is_imported_when_decoding_starts_and_not_before():
    code = (
        "import sys, mucon.decoding.alignment, mucon.decoding.length_priors, mucon.decoding.rounding, mucon.baselines;"
        "assert 'numba' not in sys.modules;"
        "mucon.decoding.alignment.best_lengths([[0.0]], [0], mucon.decoding.length_priors.Flat());"
        "assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

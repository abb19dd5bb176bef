from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.decoding.alignment import FLOOR, best_lengths
from mucon.decoding.length_priors import Flat, GeometricPerClass, Poisson, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.decoding.transcripts import Candidate, best_joint, best_of_transcripts
from tests.helpers.oracles_decoding import (
    Tabled,
    best_score_by_recursion,
    best_score_of_all,
    best_transcript_by_alignment,
    poisson_table,
    true_score,
)
from tests.helpers.refusals import ANY, refused


@st.composite
def problems(draw):
    T, N = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    with np.errstate(divide="ignore"):
        log_probs = np.log(rng.dirichlet(np.full(N, rng.choice([0.05, 0.5, 5.0])), T))
    log_probs[rng.random((T, N)) < draw(st.sampled_from([0.0, 0.0, 0.4]))] = -np.inf
    if draw(st.booleans()):
        log_probs = np.round(log_probs)  # ties
    one = st.lists(st.integers(0, N - 1), min_size=1, max_size=6)
    transcripts = draw(st.lists(one, min_size=1, max_size=12))
    transcripts += [draw(st.lists(st.integers(0, N - 1), min_size=1, max_size=T))]
    means = draw(st.lists(st.sampled_from([0.001, 0.3, 1.0, 2.5, 7.0, 5000.0]), min_size=N, max_size=N))
    longest = -(-T // len(transcripts[-1]))
    return log_probs, transcripts, means, draw(st.one_of(st.none(), st.integers(longest, T)))


def assert_best(problem, **options) -> None:
    log_probs, transcripts, means, cap = problem
    index, lengths, score = best_of_transcripts(log_probs, transcripts, means, max_length=cap, **options)
    expected, best = best_transcript_by_alignment(log_probs, transcripts, means, cap)
    assert score == pytest.approx(best, rel=1e-11, abs=1e-11)
    table = poisson_table(np.asarray(means)[transcripts[index]], len(log_probs))
    assert score == pytest.approx(true_score(log_probs, transcripts[index], lengths, table), rel=1e-11, abs=1e-11)
    assert lengths.max() <= (cap or len(log_probs))
    assert index <= expected or score > best - 1e-11 * abs(best), "the first of the best"


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_best_of_all_transcripts_is_that_of_aligning_each(problem):
    assert_best(problem)


@settings(max_examples=80, deadline=None)
@given(problems())
def test_a_beam_as_wide_as_the_tree_is_exact(problem):
    log_probs, transcripts, means, cap = problem
    exact = best_of_transcripts(log_probs, transcripts, means, max_length=cap)
    beam = best_of_transcripts(log_probs, transcripts, means, max_length=cap, beam=100)
    assert (exact[0], exact[1].tolist(), exact[2]) == (beam[0], beam[1].tolist(), beam[2])


@settings(max_examples=80, deadline=None)
@given(problems(), st.integers(1, 3))
def test_a_narrow_beam_gives_a_transcript_with_its_true_score_and_never_a_higher_one(problem, beam):
    log_probs, transcripts, means, cap = problem
    _, _, best = best_of_transcripts(log_probs, transcripts, means, max_length=cap)
    index, lengths, score = best_of_transcripts(log_probs, transcripts, means, max_length=cap, beam=beam)
    assert score <= best + 1e-11 * abs(best)
    alone, alone_score = best_lengths(log_probs, transcripts[index], PoissonPerClass(means), max_length=cap)
    assert (lengths.tolist(), score) == (alone.tolist(), alone_score)


@settings(max_examples=60, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_transcripts_decides_only_which_of_equals_wins(problem, random):
    log_probs, transcripts, means, cap = problem
    index, lengths, score = best_of_transcripts(log_probs, transcripts, means, max_length=cap)
    shuffled = random.sample(transcripts, len(transcripts))
    other, other_lengths, other_score = best_of_transcripts(log_probs, shuffled, means, max_length=cap)
    assert other_score == pytest.approx(score, rel=1e-11)
    if shuffled[other] == transcripts[index]:
        assert (other_lengths.tolist(), other_score) == (lengths.tolist(), score)


def test_every_way_to_divide_tiny_recordings_among_all_transcripts_is_no_better():
    rng = np.random.default_rng(0)
    for _ in range(20):
        T = int(rng.integers(1, 7))
        log_probs = np.log(rng.dirichlet(np.ones(2), T))
        means = rng.choice([0.3, 1.5, 4.0], 2)
        transcripts = [list(one) for M in range(1, 5) for one in itertools.product(range(2), repeat=M)]
        fitting = [one for one in transcripts if len(one) <= T]
        best = max(best_score_of_all(log_probs, one, poisson_table(means[one], T)) for one in fitting)
        assert best_of_transcripts(log_probs, transcripts, means)[2] == pytest.approx(best, rel=1e-12)


def test_geometric_lengths_are_searched_as_by_aligning_each_transcript():
    random = np.random.default_rng(1)
    for _ in range(40):
        T = int(random.integers(1, 9))
        log_probs, means = np.log(random.dirichlet(np.ones(3), T)), random.choice([1.0, 1.2, 3.0, 50.0], 3)
        transcripts = [random.integers(0, 3, random.integers(1, T + 1)).tolist() for _ in range(8)]
        prior = GeometricPerClass(means)
        scores = [best_lengths(log_probs, one, prior)[1] for one in transcripts]
        index, _, score = best_of_transcripts(log_probs, transcripts, prior)
        assert score == pytest.approx(max(scores), rel=1e-11)
        assert scores[index] == score


def planted(lengths: list[int], transcript: list[int], N: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    labels = np.repeat(transcript, lengths)
    logits = rng.normal(size=(len(labels), N))
    logits[np.arange(len(labels)), labels] += 4.0
    return (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)


def test_a_planted_transcript_is_found_among_many_with_and_without_a_beam():
    rng = np.random.default_rng(1)
    transcripts = [rng.integers(0, 12, rng.integers(2, 9)).tolist() for _ in range(100)]
    transcripts[77] = [0, 5, 3, 3, 9, 0]
    lengths = [16, 64, 32, 48, 12, 28]
    log_probs = planted(lengths, transcripts[77], 12, seed=2)
    means = np.full(12, 36.0)
    tree = PrefixTree.of(transcripts)
    for beam in (None, 1, 8):
        index, found, _ = best_of_transcripts(log_probs, tree, means, beam=beam)
        assert index == 77
        assert np.abs(found[[0, 4, 5]] - np.array(lengths)[[0, 4, 5]]).max() <= 1
    assert_best((log_probs, transcripts, means, None))


def test_a_beam_of_one_can_miss_the_best_transcript():
    frames = np.array([[5, 1, 7], [6, 7, 2], [1, 7, 1], [5, 1, 3]])
    log_probs = np.log(frames / frames.sum(axis=1, keepdims=True))
    exact = best_of_transcripts(log_probs, [[0, 2], [1, 0], [1, 2]], [2.0] * 3)
    beam = best_of_transcripts(log_probs, [[0, 2], [1, 0], [1, 2]], [2.0] * 3, beam=1)
    assert (exact[0], beam[0]) == (1, 0)
    assert beam[2] < exact[2]


def test_equal_transcripts_and_equal_scores_are_won_by_the_first():
    log_probs = np.log(np.full((6, 3), 1 / 3))
    assert best_of_transcripts(log_probs, [[2, 1], [1, 2], [0, 1], [2, 1]], [3.0] * 3)[0] == 0
    for order in itertools.permutations([[0, 1, 2], [2, 1, 0], [1, 0, 2]]):
        assert best_of_transcripts(log_probs, order, [2.0] * 3)[0] == 0


def test_one_transcript_is_aligned_as_by_itself():
    log_probs = planted([5, 9], [0, 1], 3, seed=0)
    index, lengths, score = best_of_transcripts(log_probs, [[0, 1]], [5.0, 9.0, 1.0])
    alone, alone_score = best_lengths(log_probs, [0, 1], PoissonPerClass([5.0, 9.0, 1.0]))
    assert (index, lengths.tolist(), score) == (0, alone.tolist(), alone_score)


def test_one_frame_takes_the_best_transcript_of_one_action():
    assert best_of_transcripts([[-3.0, -1.0]], [[0, 1], [0], [1], [1, 1]], [1.0, 1.0])[0] == 2


def test_transcripts_that_cannot_fill_the_recording_are_skipped():
    log_probs = planted([4, 4], [0, 1], 2, seed=0)
    assert best_of_transcripts(log_probs, [[0, 1] * 5, [0] * 9, [1, 0]], [4.0, 4.0])[0] == 2
    assert best_of_transcripts(log_probs, [[0], [0, 1], [0, 1, 0, 1]], [4.0, 4.0], max_length=2)[0] == 2
    joint = [
        Candidate([0] * 9, 0.0, Flat()),
        Candidate([0], 0.0, Tabled(np.zeros((1, 5)))),
        Candidate([1], -9.0, Flat()),
    ]
    assert best_joint(log_probs, joint)[0] == 2


LOG_PROBS = np.log(np.full((4, 2), 0.5))


@pytest.mark.parametrize(
    ("transcripts", "means", "options", "rule", "place", "value", "numbers"),
    [
        ([], [1.0] * 2, {}, "missing", "transcripts", None, []),
        ([[0], []], [1.0] * 2, {}, "missing", "transcript 1", None, []),
        ([[0], [1, -1]], [1.0] * 2, {}, "range", "transcript 1", -1, ["0"]),
        ([[0], [1, 2]], [1.0] * 2, {}, "range", "transcripts", 2, ["0", "1"]),
        ([[0]], [1.0], {}, "shape", "class_means", 1, ["2"]),
        ([[0]], [1.0, -1.0], {}, "range", "mean of action 1", -1.0, ["0"]),
        ([[0]], [1.0] * 2, {"max_length": 0}, "range", "max_length", 0, ["1"]),
        ([[0]], [1.0] * 2, {"beam": 0}, "range", "beam", 0, ["1"]),
        ([[0] * 5, [1] * 7], [1.0] * 2, {}, "mismatch", "transcripts", 4, ["2", "5", "7", "4"]),
        ([[0], [1]], [1.0] * 2, {"max_length": 3}, "mismatch", "transcripts", 4, ["2", "3", "4"]),
    ],
)
def test_transcripts_that_cannot_be_compared_are_refused_by_name(
    transcripts, means, options, rule, place, value, numbers
):
    with refused(rule, place, value, n=1) as refusal:
        best_of_transcripts(LOG_PROBS, transcripts, means, **options)
    assert set(numbers) <= set(str(refusal.problems[0]).replace(",", " ").split())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_plus_infinity_are_refused_with_their_place(value):
    log_probs = LOG_PROBS.copy()
    log_probs[2, 1] = value
    with refused("range", "frame_log_probs[2, 1]", n=1) as refusal:
        best_of_transcripts(log_probs, [[0], [0, 1]], [1.0, 1.0])
    assert repr(refusal.values[0]) == repr(float(value))
    assert best_of_transcripts(log_probs, [[0]], [1.0, 1.0])[0] == 0, "an action of no transcript is not read"


def test_minus_infinity_counts_as_the_floor():
    log_probs = np.array([[-np.inf, -1.0], [-500.0, -1.0]])
    _, _, score = best_of_transcripts(log_probs, [[0]], [2.0, 2.0])
    assert score == pytest.approx(2 * FLOOR + poisson_table([2.0], 2)[0, 2], rel=1e-14)


def test_a_prefix_tree_has_one_node_for_each_distinct_prefix():
    rng = np.random.default_rng(3)
    transcripts = [rng.integers(0, 3, rng.integers(1, 6)).tolist() for _ in range(60)]
    tree = PrefixTree.of(transcripts)
    prefixes = sorted({tuple(one[:n]) for one in transcripts for n in range(1, len(one) + 1)})
    assert tree.n_transcripts == 60
    assert tree.actions.tolist() == [one[-1] for one in prefixes]
    assert tree.depths.tolist() == [len(one) for one in prefixes]
    for node, prefix in enumerate(prefixes):
        inside = [i for i, one in enumerate(prefixes) if one[: len(prefix)] == prefix]
        assert inside == list(range(node, tree.stops[node]))
        first = transcripts.index(list(prefix)) if list(prefix) in transcripts else -1
        assert tree.transcripts[node] == first


@settings(max_examples=80, deadline=None)
@given(problems(), st.lists(st.sampled_from([0.0, -0.5, -3.0, -np.inf]), min_size=13, max_size=13))
def test_the_joint_choice_is_the_best_sum_of_transcript_and_alignment(problem, log_probs_of):
    log_probs, transcripts, means, cap = problem
    T = len(log_probs)
    candidates = [
        Candidate(one, log_prob, Poisson(np.asarray(means)[one]))
        for one, log_prob in zip(transcripts, log_probs_of, strict=False)
    ]
    scores = [
        one.log_prob + best_score_by_recursion(log_probs, one.transcript, poisson_table(one.prior.means, T), cap)
        if len(one.transcript) <= T <= len(one.transcript) * (cap or T)
        else -np.inf
        for one in candidates
    ]
    index, lengths, score = best_joint(log_probs, candidates, max_length=cap)
    assert score == pytest.approx(max(scores), rel=1e-11, abs=1e-11)
    assert scores[index] == pytest.approx(score, rel=1e-11, abs=1e-11)
    assert (len(lengths), lengths.sum()) == (len(transcripts[index]), T)


def test_a_more_likely_transcript_wins_until_the_frames_contradict_it():
    log_probs = planted([6, 6], [0, 1], 3, seed=4)
    prior = Poisson([6.0, 6.0])
    for log_prob, winner in ((-1.0, 1), (-1000.0, 0)):
        candidates = [Candidate([0, 2], 0.0, prior), Candidate([0, 1], log_prob, prior)]
        assert best_joint(log_probs, candidates)[0] == winner
    assert best_joint(log_probs, [Candidate([0, 1], 0.0, prior)] * 2)[0] == 0


@pytest.mark.parametrize(
    ("candidates", "rule", "place", "value"),
    [
        ([], "mismatch", "candidates", 4),
        ([Candidate([0] * 5, 0.0, Flat()), Candidate([], 0.0, Flat())], "mismatch", "candidates", 4),
        ([Candidate([0], np.nan, Flat())], "range", "candidate 0", ANY),
        ([Candidate([0, 7], 0.0, Flat())], "range", "transcript[1]", 7),
    ],
)
def test_candidates_that_cannot_be_compared_are_refused_by_name(candidates, rule, place, value):
    with refused(rule, place, value, n=1):
        best_joint(LOG_PROBS, candidates)

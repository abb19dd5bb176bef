"""Tests of significance: the formulas against their definitions, the paper's numbers, and their error rates."""

import itertools
import math
import re
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sweeps.service.stats.significance import (
    LEVEL,
    Floats,
    block_ranks,
    friedman_with_replicates,
    holm,
    rank_variance,
    seeds_needed,
    smallest_attainable_p,
    welch_over_seeds,
)
from sweeps.service.stats.summary import Summary
from tests.helpers.refusals import refused

SMALL = settings(max_examples=25, deadline=None)
TIED = st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5])


def tables(k: st.SearchStrategy[int], blocks: st.SearchStrategy[int]) -> st.SearchStrategy[Floats]:
    """Scores `[k B R]` with many ties, enough of them that the test has a number."""

    def filled(shape: tuple[int, int, int]) -> st.SearchStrategy[Floats]:
        values = st.lists(TIED, min_size=math.prod(shape), max_size=math.prod(shape))
        return values.map(lambda scores: np.array(scores).reshape(shape))

    return st.tuples(k, blocks, st.integers(3, 5)).flatmap(filled)


def slow_chi_squared(values: Floats) -> float:
    """From the definition, in fractions: ranks by counting, variance by summing, block by block."""
    k, n_blocks, n_seeds = values.shape
    largest = k * n_seeds
    sums, variances = [Fraction(0)] * k, []
    for block in range(n_blocks):
        pooled = [values[j, block, r] for j in range(k) for r in range(n_seeds)]
        ranks = [Fraction(sum(v < x for v in pooled) * 2 + sum(v == x for v in pooled) + 1, 2) for x in pooled]
        variances.append(sum((rank - Fraction(largest + 1, 2)) ** 2 for rank in ranks) / (largest - 1))
        for j in range(k):
            sums[j] += sum(ranks[j * n_seeds : (j + 1) * n_seeds])
    n = n_blocks * n_seeds
    variance = sum(variances) / n_blocks
    if variance == 0:
        return 0.0
    return float(n * sum((total / n - Fraction(largest + 1, 2)) ** 2 for total in sums) / variance)


def apart(n_swaps: int, n_blocks: int = 4, n_seeds: int = 5) -> Floats:
    """Two approaches; `n_swaps` steps of the rank sum away from one being better everywhere."""
    first, second = [list(range(n_seeds, 2 * n_seeds)) for _ in range(n_blocks)], []
    for block in first:
        for place in range(n_seeds):
            step = min(n_seeds, n_swaps)
            block[place] -= step
            n_swaps -= step
        second.append([rank for rank in range(2 * n_seeds) if rank not in block])
    return np.array([first, second], dtype=np.float64)


def numbers(text: str | None) -> list[float]:
    """The numbers in a reason, without the one of the significance level."""
    found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text or "")]
    return [number for number in found if number != LEVEL]


def test_an_approach_that_is_always_better_has_the_papers_p() -> None:
    outcome = friedman_with_replicates(apart(0))
    assert outcome.statistic == pytest.approx(27.2727, abs=5e-5)
    assert f"{outcome.p:.2e}" == "1.77e-07"
    assert (outcome.n, outcome.counted, outcome.direction) == (20, "5 seeds on 4 splits", 1)
    assert outcome.p == outcome.smallest_p


def test_every_p_that_the_paper_prints_of_mof_is_one_that_the_test_can_give() -> None:
    possible = [friedman_with_replicates(apart(swaps)).p for swaps in range(51)]
    assert [f"{p:.2e}" for p in possible[:3]] == ["1.77e-07", "3.09e-07", "5.35e-07"]
    rounded = [f"{p:.3f}" for p in possible if p is not None]
    assert "0.465" in rounded
    assert "0.001" in rounded


@SMALL
@given(tables(st.integers(2, 4), st.integers(1, 4)))
def test_the_statistic_is_that_of_the_definition(values: Floats) -> None:
    outcome = friedman_with_replicates(values)
    if outcome.p is not None:
        assert outcome.statistic == pytest.approx(slow_chi_squared(values), abs=1e-9)
        assert outcome.p == pytest.approx(stats.chi2.sf(slow_chi_squared(values), len(values) - 1), abs=1e-12)


@SMALL
@given(tables(st.integers(3, 5), st.integers(1, 1)))
def test_with_one_split_it_is_the_test_of_kruskal_and_wallis(values: Floats) -> None:
    outcome = friedman_with_replicates(values)
    if len(np.unique(values)) > 1:
        expected = stats.kruskal(*values[:, 0, :])
        assert (outcome.statistic, outcome.p) == pytest.approx((expected.statistic, expected.pvalue))
    else:
        assert (outcome.statistic, outcome.p) == (0.0, 1.0)


@SMALL
@given(st.lists(st.lists(TIED, min_size=3, max_size=3), min_size=4, max_size=8))
def test_with_one_seed_it_is_friedmans_test(by_split: list[list[float]]) -> None:
    values = np.array(by_split).T[:, :, None]
    outcome = friedman_with_replicates(values)
    if any(len(set(block)) > 1 for block in by_split):
        expected = stats.friedmanchisquare(*values[:, :, 0])
        assert (outcome.statistic, outcome.p) == pytest.approx((expected.statistic, expected.pvalue))
    else:
        assert outcome.p == 1.0


def test_the_variance_of_untied_ranks_is_the_closed_form() -> None:
    ranks = np.arange(1.0, 13.0).reshape(3, 1, 4)
    assert rank_variance(ranks) == pytest.approx(12 * 13 / 12)


def test_lower_is_better_turns_only_the_direction() -> None:
    values = np.random.default_rng(1).normal(size=(2, 2, 4)) + np.array([0.4, 0])[:, None, None]
    up, down = friedman_with_replicates(values), friedman_with_replicates(values, higher_is_better=False)
    assert (up.direction, down.direction) == (1, -1)
    assert up.p == pytest.approx(down.p)


@SMALL
@given(tables(st.integers(2, 4), st.integers(1, 3)), st.randoms(use_true_random=False))
def test_the_order_of_rows_splits_and_seeds_does_not_matter(values: Floats, random: Random) -> None:
    k, n_blocks, n_seeds = values.shape
    shuffled = values[random.sample(range(k), k)][:, random.sample(range(n_blocks), n_blocks)]
    shuffled = shuffled[:, :, random.sample(range(n_seeds), n_seeds)]
    first, second = friedman_with_replicates(values), friedman_with_replicates(shuffled)
    assert first.p == pytest.approx(second.p)
    assert first.reason == second.reason


@SMALL
@given(st.permutations(range(16)), st.integers(0, 16), st.integers(0, 16))
def test_p_falls_as_the_difference_grows(ranks: list[int], shift: int, more: int) -> None:
    values = np.array(ranks, dtype=np.float64).reshape(2, 2, 4)
    near, far = (
        friedman_with_replicates(values + np.array([by + 0.5, 0])[:, None, None]) for by in (shift, shift + more)
    )
    if near.direction >= 0:
        assert near.p is not None
        assert far.p is not None
        assert far.p <= near.p


def test_the_smallest_attainable_p_is_that_of_rows_that_do_not_overlap() -> None:
    assert smallest_attainable_p(1, 3) == pytest.approx(0.0495, abs=5e-5)
    assert smallest_attainable_p(1, 5) == pytest.approx(0.0090, abs=5e-5)
    for k, blocks, seeds in itertools.product((2, 3, 4), (1, 2, 4), (3, 5)):
        block = np.arange(k * seeds, dtype=np.float64).reshape(k, 1, seeds)
        assert smallest_attainable_p(blocks, seeds, k) == pytest.approx(
            stats.chi2.sf(slow_chi_squared(np.repeat(block, blocks, axis=1)), k - 1)
        )


def test_too_few_seeds_have_no_p_and_the_reason_names_the_number_that_is_enough() -> None:
    outcome = friedman_with_replicates(apart(0, n_blocks=1, n_seeds=2))
    assert (outcome.p, outcome.statistic, outcome.significant) == (None, None, False)
    assert (outcome.counted, outcome.comparisons, seeds_needed(1)) == ("2 seeds on 1 split", 1, 3)
    assert outcome.smallest_p == pytest.approx(0.121, abs=5e-4)
    assert numbers(outcome.reason) == [2, 1, 0.121, 3]
    together = friedman_with_replicates(apart(0, n_blocks=1, n_seeds=3), comparisons=5)
    assert (together.p, together.counted, together.comparisons) == (None, "3 seeds on 1 split", 5)
    assert together.smallest_p == smallest_attainable_p(1, 3)
    assert numbers(together.reason) == [3, 1, 0.0495, 0.248, 5, 5]
    assert seeds_needed(1, comparisons=5) == 5
    enough = friedman_with_replicates(apart(0, n_blocks=1, n_seeds=5), comparisons=5)
    assert (enough.p, enough.reason) == (smallest_attainable_p(1, 5), None)
    without = friedman_with_replicates([[[]], [[]]])
    assert (without.p, without.n, without.counted) == (None, 0, "0 seeds on 1 split")


def test_unequal_seeds_nan_and_a_single_row_are_refused_with_their_place() -> None:
    with refused("shape", place="seeds", value=[[3], [2]], n=1):
        friedman_with_replicates([[[1, 2, 3]], [[4, 5]]])
    with refused("shape", place="seeds", value=[[2, 2], [2]], n=1):
        friedman_with_replicates([[[1, 2], [3, 4]], [[5, 6]]])
    with refused("range", place="scores[1, 0, 2]", n=1) as refusal:
        friedman_with_replicates([[[1, 2, 3]], [[4, 5, math.nan]]])
    assert math.isnan(float(str(refusal.values[0])))
    with refused("range", place="rows", value=1, n=1):
        friedman_with_replicates([[[1, 2, 3]]])
    with refused("range", place="rows", value=0, n=1):
        block_ranks([])


@pytest.mark.parametrize(("n_seeds", "rate"), [(3, 2 / 20), (5, 14 / 252)])
def test_the_error_rate_on_one_split_is_that_of_the_note(n_seeds: int, rate: float) -> None:
    outcomes = []
    for chosen in itertools.combinations(range(2 * n_seeds), n_seeds):
        others = [rank for rank in range(2 * n_seeds) if rank not in chosen]
        outcomes.append(friedman_with_replicates([[list(chosen)], [others]]).significant)
    assert np.mean(outcomes) == pytest.approx(rate)


def test_the_error_rate_with_the_papers_splits_and_seeds_is_five_percent() -> None:
    random = np.random.default_rng(7)
    hard = np.array([0.0, 3.0, -2.0, 1.0])[:, None]
    wrong = [friedman_with_replicates(random.normal(size=(2, 4, 5)) + hard).significant for _ in range(400)]
    assert 0.03 < np.mean(wrong) < 0.075


@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 10), (8, 6)])
def test_the_p_over_seeds_is_that_of_scipys_unequal_variances(n: int, m: int) -> None:
    random = np.random.default_rng(n + m)
    first, second = random.normal(0.7, 0.05, n), random.normal(0.65, 0.01, m)
    outcome, expected = welch_over_seeds(first, second), stats.ttest_ind(first, second, equal_var=False)
    assert (outcome.statistic, outcome.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert (outcome.n, outcome.direction) == (min(n, m), 1)
    lower = welch_over_seeds(first, second, higher_is_better=False)
    assert (lower.p, lower.direction) == (outcome.p, -1)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 9), (2, 2), (4, 4), (4, 10)])
def test_fewer_than_five_seeds_have_no_p_however_far_they_are_apart(n: int, m: int) -> None:
    outcome = welch_over_seeds(np.linspace(0.9, 0.91, n), np.linspace(0.1, 0.11, m), splits=3)
    assert (outcome.p, outcome.statistic, outcome.significant, outcome.direction) == (None, None, False, 0)
    assert numbers(outcome.reason) == [n, 3, 5]


def test_seeds_without_variation_have_the_p_of_a_permutation() -> None:
    same = welch_over_seeds([0.1 + 0.2] * 5, [0.3] * 5)
    assert (same.p, same.direction, same.significant) == (1.0, 0, False)
    apart = welch_over_seeds([0.4] * 5, [0.3] * 5)
    assert (apart.p, apart.direction) == (2 / math.comb(10, 5), 1)
    one_varies = welch_over_seeds([0.3] * 5, [0.30, 0.31, 0.29, 0.32, 0.28])
    assert (one_varies.p, one_varies.direction) == (1.0, 0)


def test_a_seed_without_a_finite_score_cannot_be_tested() -> None:
    with refused("range", place="scores[1]", value=math.inf, n=1):
        welch_over_seeds([1, math.inf, 1, 1, 1], [1, 2, 3, 4, 5])


@SMALL
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=5))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float | None]) -> None:
    filled = [1.0 if p is None else p for p in p_values]
    for place, adjusted in enumerate(holm(p_values)):
        together = [s for n in range(1, 6) for s in itertools.combinations(range(len(filled)), n) if place in s]
        closed = max(min(1.0, len(some) * min(filled[i] for i in some)) for some in together)
        assert adjusted is None if p_values[place] is None else adjusted == pytest.approx(closed)


def test_the_interval_contains_the_true_mean_as_often_as_its_level_says() -> None:
    random = np.random.default_rng(6)
    hard = np.array([0.0, 8.0, -5.0])[:, None]
    intervals = [
        summary.interval
        for summary in (Summary.of(random.normal(size=(3, 5)) + hard) for _ in range(400))
        if summary is not None and summary.interval is not None
    ]
    assert len(intervals) == 400
    assert 0.925 < np.mean([low <= 1 <= high for low, high in intervals]) < 0.975


def test_the_interval_is_students() -> None:
    values = [0.49, 0.51, 0.46, 0.50, 0.53]
    summary = Summary.of(values, confidence=0.9)
    assert summary is not None
    expected = stats.t.interval(0.9, 4, loc=np.mean(values), scale=stats.sem(values))
    assert summary.interval == pytest.approx(expected)
    assert [summary.mean, summary.std, summary.n] == pytest.approx([np.mean(values), np.std(values, ddof=1), 5])


def test_fewer_than_five_seeds_have_no_interval_and_no_seed_no_summary() -> None:
    assert [Summary.of(np.linspace(0.4, 0.5, n)).interval is None for n in (1, 2, 4, 5)] == [True, True, True, False]  # type: ignore[union-attr]
    assert Summary.of([[0.25], [0.75]]) == Summary(0.5, None, 1)
    assert Summary.of([]) is None
    assert Summary.of([[], []]) is None


@pytest.mark.parametrize("confidence", [95, 0, 1, -0.5])
def test_an_invalid_confidence_level_is_refused(confidence: float) -> None:
    with refused("range", place="confidence", value=confidence, n=1):
        Summary.of([0.5, 0.6], confidence=confidence)


def test_a_seed_without_a_finite_score_is_refused() -> None:
    with refused("range", place="scores[0, 1]", value=math.inf, n=1):
        Summary.of([0.5, math.inf])

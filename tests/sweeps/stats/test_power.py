"""Seeds that a paired t test needs: published sizes, integration, simulation, and cases without an answer."""

import numpy as np
import pytest
from scipy import integrate, stats

from sweeps.service.stats.comparisons import SeedValues
from sweeps.service.stats.power import (
    MOST_SEEDS,
    POWER,
    detectable_effect,
    paired_difference,
    power_of,
    seeds_for,
)


def row(*splits: list[float]) -> SeedValues:
    """A row from the values of its seeds on each split."""
    return {(str(s), seed): value for s, values in enumerate(splits) for seed, value in enumerate(values)}


def power_by_integration(effect: float, n: int) -> float:
    """Integrates over the sample deviation of n differences, whose square has a chi-squared distribution."""
    limit = stats.t.ppf(0.975, n - 1)

    def given(deviation: float) -> float:
        reach, shift = limit * deviation, effect * np.sqrt(n)
        shown = stats.norm.sf(reach - shift) + stats.norm.cdf(-reach - shift)
        return float(shown * stats.chi.pdf(deviation * np.sqrt(n - 1), n - 1) * np.sqrt(n - 1))

    return float(integrate.quad(given, 0, 12, points=[1.0], limit=200)[0])


@pytest.mark.parametrize(("effect", "n"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (-0.5, 34)])
def test_the_seeds_for_common_effects_are_the_published_ones(effect: float, n: int) -> None:
    """As in G*Power 3.1: t test of matched pairs, two tails, alpha 0.05, power 0.8."""
    assert seeds_for(effect) == n
    assert power_of(effect, n - 1) < POWER <= power_of(effect, n)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40, 1000])
def test_the_power_is_that_of_numeric_integration(n: int) -> None:
    for shift in (0.0, 0.3, 1.0, 2.8, 5.0, 8.0, 14.0, 29.0):
        effect = shift / np.sqrt(n)
        assert power_of(effect, n) == pytest.approx(power_by_integration(effect, n), abs=1e-5)
    assert power_of(detectable_effect(n), n) == pytest.approx(POWER, abs=1e-9)


def test_the_power_is_the_share_of_simulated_tests_that_show_the_difference() -> None:
    random = np.random.default_rng(1)
    for effect, n in ((1.0, 5), (0.5, 34), (detectable_effect(7), 7)):
        shown = stats.ttest_1samp(random.normal(effect, 1.0, (20_000, n)), 0.0, axis=1).pvalue < 0.05
        assert shown.mean() == pytest.approx(power_of(effect, n), abs=0.01)


def test_very_small_and_very_large_effects_have_an_answer() -> None:
    assert (seeds_for(0.0), seeds_for(1e-12)) == (None, None)
    assert seeds_for(detectable_effect(MOST_SEEDS) * 0.999) is None
    assert (seeds_for(12.0), seeds_for(1e9)) == (2, 2)
    assert 0.98 < power_of(1e9, 2) <= power_of(1e9, 3) <= 1


def test_a_difference_is_paired_by_seed_and_split() -> None:
    random = np.random.default_rng(2)
    hard, noise = random.normal(0.5, 0.2, (3, 6)), random.normal(0, 0.01, (3, 6))
    found = paired_difference(row(*(hard + 0.02 + noise).tolist()), row(*hard.tolist()))
    differences = 0.02 + noise
    assert (found.n_seeds, found.n_splits, found.reason) == (6, 3, None)
    assert found.mean == pytest.approx(differences.mean())
    assert found.over_seeds == pytest.approx(differences.mean(axis=0).std(ddof=1))
    assert found.over_splits == pytest.approx(differences.mean(axis=1).std(ddof=1))
    assert found.needed == seeds_for(differences.mean() / differences.mean(axis=0).std(ddof=1))
    assert found.detectable == pytest.approx(detectable_effect(6) * differences.mean(axis=0).std(ddof=1))
    turned = paired_difference(row(*hard.tolist()), row(*(hard + 0.02 + noise).tolist()))
    assert (turned.mean, turned.needed) == (pytest.approx(-found.mean), found.needed)


def test_only_seeds_that_both_rows_have_count() -> None:
    first, second = row([0.5, 0.6, 0.8, 0.7]), row([0.4, 0.4, 0.4])
    found = paired_difference(first, second)
    assert (found.n_seeds, found.mean) == (3, pytest.approx(0.7 / 3))
    assert found.over_splits is None


@pytest.mark.parametrize(
    ("first", "second", "mean", "over_seeds"),
    [
        (row([0.5]), row([0.4]), pytest.approx(0.1), None),
        (row([0.1, 0.2, 0.3]), row([0.0, 0.1, 0.2]), pytest.approx(0.1), 0.0),
        (row([0.5, 0.6]), row([0.5, 0.6]), 0.0, 0.0),
        ({("0", 1): 0.5}, {("0", 2): 0.4}, None, None),
        ({}, {}, None, None),
    ],
)
def test_where_nothing_can_be_said_there_is_a_reason(
    first: SeedValues, second: SeedValues, mean: float | None, over_seeds: float | None
) -> None:
    found = paired_difference(first, second)
    assert (found.mean, found.over_seeds, found.needed, found.detectable) == (mean, over_seeds, None, None)
    assert found.reason


def test_a_difference_of_zero_needs_no_number_of_seeds_but_has_a_smallest_one_that_is_seen() -> None:
    found = paired_difference(row([0.5, 0.6, 0.7]), row([0.6, 0.5, 0.7]))
    assert (found.mean, found.needed, found.reason) == (0.0, None, None)
    rounding = paired_difference(row([0.3, 0.1, 0.2]), row([0.2, 0.15, 0.25]))
    assert (rounding.mean, rounding.needed, rounding.reason) == (0.0, None, None)
    assert found.detectable == pytest.approx(0.1 * detectable_effect(3))

"""The confidence sequence that decides how many seeds a row needs: its errors, its seeds, and what it looks at."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from benchmarks import sequential_seeds as simulation
from sweeps.service.stats.sequential import SCALE, Decision, RowSeeds, critical_t, row_seeds
from sweeps.service.stats.significance import Floats


def decided(row: list[float | None], default: list[float | None], *, least: int = 3, most: int = 8) -> RowSeeds:
    """The rule on the first seeds of two rows, with a margin of 1."""
    outcomes = [dict(enumerate(values, start=1)) for values in (row, default)]
    return row_seeds(*outcomes, least=least, most=most, margin=1.0)


@pytest.mark.parametrize(
    ("noise", "rows", "difference", "deviation"),
    [
        (simulation.normal, 1, 0.0, 2.0),
        (simulation.skewed, 1, 0.0, 2.0),
        (simulation.normal, 2, 0.0, 0.3),
        (simulation.real, 1, 10.0, 2.0),
    ],
)
def test_at_most_one_sweep_in_twenty_ends_with_an_interval_without_the_true_difference(
    noise: Callable[[np.random.Generator, tuple[int, int]], Floats], rows: int, difference: float, deviation: float
) -> None:
    found = simulation.simulated(noise, rows=rows, difference=difference, deviation=deviation, sweeps=1000)
    assert found["wrong"] <= 0.05  # type: ignore[operator]


def test_a_clear_difference_needs_a_third_of_the_fixed_number_of_seeds() -> None:
    found = simulation.simulated(simulation.normal, rows=1, difference=10.0, deviation=2.0, sweeps=300)
    assert found["better"] == 1.0
    assert found["seeds"] < simulation.MOST / 3  # type: ignore[operator]


@pytest.mark.parametrize(("n", "level"), [(3, 0.05), (5, 0.05), (15, 0.01)])
def test_at_its_end_an_interval_has_the_mixture_ratio_of_its_level(n: int, level: float) -> None:
    t, widened = critical_t(n, level), math.sqrt(1 + n * SCALE**2)  # t of the mixture is that many times Student's
    ratio = stats.t.pdf(t / widened, n - 1) / widened / stats.t.pdf(t, n - 1)
    assert ratio == pytest.approx(1 / level)


def test_no_number_of_seeds_has_a_narrower_interval_than_that_of_students_t() -> None:
    assert all(critical_t(n) > 1.5 * stats.t.ppf(0.975, n - 1) for n in range(2, 50))


def test_rows_are_better_worse_equivalent_or_open() -> None:
    base: list[float | None] = [50.0, 51.0, 49.0, 50.5]
    assert decided([60.1, 61.0, 59.2, 60.4], base).decision is Decision.BETTER
    assert decided([40.1, 41.0, 39.2, 40.4], base).decision is Decision.WORSE
    assert decided([50.1, 50.9, 49.1, 50.5], base).decision is Decision.EQUIVALENT
    found = decided([54.0, 50.0, 52.0, 51.0], base)
    assert (found.decision, found.needed, found.pairs) == (Decision.OPEN, 5, 4)
    assert found.interval[0] < found.difference == 1.625 < found.interval[1]  # type: ignore[operator]


def test_an_error_is_better_the_lower_it_is() -> None:
    row, default = {1: 1.0, 2: 1.1, 3: 0.9}, {1: 9.0, 2: 9.1, 3: 8.7}
    found = row_seeds(row, default, least=3, most=9, margin=0.5, higher_is_better=False)
    assert found.decision is Decision.BETTER


def test_seeds_after_a_gap_or_after_the_decision_do_not_count() -> None:
    row: dict[int, float | None] = {1: 60.0, 2: 61.0, 4: 62.0}
    default: dict[int, float | None] = {1: 50.0, 2: 50.5, 3: 49.9, 4: 52.0}
    waiting = row_seeds(row, default, least=3, most=9, margin=1.0)
    assert (waiting.needed, waiting.decision, waiting.pairs) == (3, Decision.OPEN, 2)
    clear = row_seeds({**row, 3: 60.2}, default, least=3, most=9, margin=1.0)
    assert (clear.needed, clear.decision) == (3, Decision.BETTER)
    assert row_seeds({**row, 3: 60.2, 4: 0.0, 5: 0.0}, {**default, 5: 99.0}, least=3, most=9, margin=1.0) == clear


def test_the_last_seed_ends_a_row_that_is_open() -> None:
    found = decided([54.0, 50.0, 52.0], [50.0, 51.0, 49.0], most=3)
    assert (found.needed, found.decision) == (3, Decision.OPEN)


@pytest.mark.parametrize("which", ["row", "default"])
def test_a_failure_costs_its_pair_and_two_in_a_row_end_the_row(which: str) -> None:
    values: list[float | None] = [54.0, None, 52.0, 55.0, None]
    other: list[float | None] = [50.0, 51.0, 49.0, 56.0, 50.0, 49.0]
    pair = (values, other) if which == "row" else (other, values)
    once = decided(*pair)
    assert (once.needed, once.decision, once.pairs) == (6, Decision.OPEN, 3)
    values.append(None)
    twice = decided(*pair)
    assert (twice.needed, twice.decision, twice.pairs) == (6, Decision.NO_VALUES, 3)


def test_a_row_that_is_clear_at_its_least_seeds_is_so_after_failures_too() -> None:
    found = decided([60.0, None, None, 61.0, 60.3, 59.8], [50.0, 51.0, 49.0, 50.5, 50.1, 50.2], least=6)
    assert (found.needed, found.decision, found.pairs) == (6, Decision.BETTER, 4)


def test_a_coarse_score_that_does_not_vary_is_not_taken_for_certain() -> None:
    assert decided([60.0] * 4, [50.0] * 4).decision is Decision.OPEN
    assert decided([60.0] * 8, [50.0] * 8).needed == 6
    tiny = decided([0.1 + 0.2] * 7, [0.3] * 7)  # a rounding error is no difference
    assert (tiny.decision, tiny.difference) == (Decision.EQUIVALENT, 0.0)

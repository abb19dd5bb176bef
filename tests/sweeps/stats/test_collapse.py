"""Scores that collapsed: below the baseline of their split, or far from the other seeds of their row."""

import numpy as np
import pytest

from sweeps.service.stats.collapse import collapsed_cells
from sweeps.service.stats.comparisons import SeedValues

GOOD = (0.70, 0.71, 0.69, 0.72, 0.68)
"""Median 0.70, MAD 0.01: the limit is 0.70 - 3 * 1.4826 * 0.01 = 0.655522."""


def row(values: tuple[float, ...], split: str = "1") -> SeedValues:
    return {(split, seed): value for seed, value in enumerate(values, start=1)}


def test_a_score_below_the_baseline_of_its_split_has_collapsed_with_any_number_of_seeds() -> None:
    values = row((0.4,)) | row((0.4, 0.5), "2")
    assert collapsed_cells(values, {"1": 0.39, "2": 0.45}) == (("2", 1),)
    assert collapsed_cells(values, {"1": 0.4}) == (), "as good as the baseline"
    assert collapsed_cells(row((0.1 + 0.2,)), {"1": 0.3}) == collapsed_cells(row((0.3,)), {"1": 0.1 + 0.2}) == ()
    assert collapsed_cells(values, {}) == ()


@pytest.mark.parametrize(("value", "found"), [(0.6555, (("1", 6),)), (0.6556, ()), (0.99, ())])
def test_a_score_beyond_three_mad_of_its_row_has_collapsed(value: float, found: tuple[tuple[str, int], ...]) -> None:
    """With the sixth and a seventh seed, the median stays 0.70 and the MAD 0.01."""
    values = row((*GOOD, value, 0.70))
    assert np.median(list(values.values())) == 0.7
    assert collapsed_cells(values, {}) == found


def test_errors_collapse_upwards() -> None:
    errors = row(tuple(100 * (1 - value) for value in (*GOOD, 0.2)))
    assert collapsed_cells(errors, {}, higher_is_better=False) == (("1", 6),)
    assert collapsed_cells(errors, {"1": 30.5}, higher_is_better=False) == (("1", 3), ("1", 5), ("1", 6))


def test_four_seeds_and_rows_that_hardly_vary_have_no_limit_of_their_own() -> None:
    assert collapsed_cells(row((0.7, 0.71, 0.69, 0.1)), {}) == ()
    assert collapsed_cells(row((0.7, 0.7, 0.7, 0.7, 0.1)), {}) == ()
    same = (0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2, 0.3 - 1e-16, 0.3 - 2e-16)
    assert collapsed_cells(row(same), {}) == ()


def test_each_split_has_its_own_median() -> None:
    """The scores of a hard split are all below those of an easy one."""
    values = row(GOOD) | row(tuple(value - 0.4 for value in GOOD), "2") | {("2", 6): 0.1}
    assert collapsed_cells(values, {}) == (("2", 6),)

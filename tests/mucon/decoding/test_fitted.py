"""The fitted length prior: its spread by moments, and its centre by likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from mucon.decoding.fitted import MOST_SPREAD, FittedLengths, fitted_spreads
from mucon.decoding.spread_priors import LEAST_SPREAD

MEANS = np.array([40.0, 150.0, 90.0])


def recordings(spread: float, predicted: str, n: int = 60):
    """Transcripts of two actions with negative binomial lengths, and predicted lengths that are their means or not."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        transcript = rng.integers(0, 2, 6)
        centres = MEANS[transcript] * (rng.uniform(0.3, 3, 6) if predicted == "right" else 1.0)
        rates = centres * rng.gamma(spread**-2, spread**2, 6) if spread else centres
        lengths = np.maximum(rng.poisson(rates), 1)
        found.append((transcript, lengths, centres if predicted == "right" else rng.uniform(10, 300, 6)))
    return found


@pytest.mark.parametrize("spread", [0.2, 0.5, 0.9])
def test_the_spread_is_the_one_by_which_the_lengths_were_drawn(spread):
    fitted = FittedLengths.of(recordings(spread, "wrong"), 3)
    assert fitted.centre == "class"
    np.testing.assert_allclose(fitted.spreads[:2], spread, rtol=0.25)
    np.testing.assert_allclose(fitted.means[:2], MEANS[:2], rtol=0.25)
    prior = fitted.prior(np.array([1, 0]), np.array([7.0, 3.0]))
    np.testing.assert_array_equal(prior.means, np.array(fitted.means)[[1, 0]])


def test_the_centre_is_the_one_that_explains_the_lengths():
    fitted = FittedLengths.of(recordings(0.2, "right"), 3)
    assert fitted.centre == "segment"
    np.testing.assert_allclose(fitted.spreads[:2], 0.2, rtol=0.25)
    assert fitted.prior(np.array([1, 0]), np.array([7.0, 0.1])).means.tolist() == [7.0, 1.0]


def test_lengths_that_vary_less_than_poisson_have_a_poisson_prior():
    fitted = FittedLengths.of(recordings(0.0, "wrong"), 3)
    assert max(fitted.spreads) < 0.1
    actions, frames = np.zeros(8, np.int64), np.full(8, 50)
    assert fitted_spreads(actions, frames, np.full(8, 50.0), 2).tolist() == [LEAST_SPREAD] * 2


def test_few_segments_are_shrunk_to_the_spread_of_all():
    actions, frames = np.array([0] * 95 + [1] * 5), np.array([50] * 95 + [10, 90, 10, 90, 50])
    squares = ((frames - 50.0) ** 2 - 50) / 2500
    pooled, own = squares.mean(), squares[95:].mean()
    found = fitted_spreads(actions, frames, np.full(100, 50.0), 3)
    assert found[1] == pytest.approx(np.sqrt((own + pooled) / 2))
    assert found[2] == pytest.approx(np.sqrt(max(pooled, LEAST_SPREAD**2)))
    wild = fitted_spreads(np.array([0, 0]), np.array([1, 999]), np.array([10.0, 10.0]), 1)
    assert wild.tolist() == [MOST_SPREAD]


def test_an_ensemble_has_the_means_of_its_members():
    one = FittedLengths(centre="class", means=(2.0, 4.0), spreads=(0.2, 0.4))
    other = FittedLengths(centre="class", means=(4.0, 8.0), spreads=(0.4, 0.8))
    both = FittedLengths.averaged([one, other])
    assert (both.centre, both.means) == ("class", (3.0, 6.0))
    assert both.spreads == pytest.approx((0.3, 0.6))

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import geom, lognorm, nbinom, norm

from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import Poisson
from mucon.decoding.spread_priors import LEAST_SPREAD, Gaussian, LogNormal, NegativeBinomial
from tests.helpers.oracles_decoding import best_score_by_recursion
from tests.helpers.refusals import ANY, refused

PRIORS = (Gaussian, LogNormal, NegativeBinomial)
MEANS = np.array([4.0, 40.7, 900.0])
FRAMES = np.arange(1, 4001)


def table(prior, longest: int = 4000) -> np.ndarray:
    """`[M, L]`, lengths 1..L."""
    M = np.asarray(prior.means).size
    return prior.terms(np.arange(M), longest).table()[:, 1:]


def test_gaussian_log_probabilities_are_those_of_the_normal_density():
    expected = [norm.logpdf(FRAMES, mean, 0.3 * mean) for mean in MEANS]
    np.testing.assert_allclose(table(Gaussian(MEANS, 0.3)), expected, rtol=1e-12)


def test_log_normal_log_probabilities_are_those_of_a_density_with_that_mean_and_deviation():
    rows = table(LogNormal(MEANS, 0.6))
    for row, mean in zip(rows, MEANS, strict=True):
        sigma = np.sqrt(np.log(1 + 0.6**2))
        density = lognorm(sigma, scale=mean * np.exp(-(sigma**2) / 2))
        assert density.mean() == pytest.approx(mean, rel=1e-12)
        assert density.std() == pytest.approx(0.6 * mean, rel=1e-12)
        np.testing.assert_allclose(row, density.logpdf(FRAMES), rtol=1e-12)


def test_negative_binomial_log_probabilities_are_those_of_a_poisson_with_varying_mean():
    spreads = np.array([0.2, 0.5, 1.7])
    rows = table(NegativeBinomial(MEANS, spreads))
    for row, mean, spread in zip(rows, MEANS, spreads, strict=True):
        size = spread**-2
        distribution = nbinom(size, size / (size + mean))
        assert distribution.mean() == pytest.approx(mean, rel=1e-12)
        assert distribution.var() == pytest.approx(mean + (spread * mean) ** 2, rel=1e-12)
        np.testing.assert_allclose(row, distribution.logpmf(FRAMES), rtol=1e-9, atol=1e-9)


def test_a_negative_binomial_is_geometric_with_spread_1_and_poisson_with_spread_near_0():
    np.testing.assert_allclose(
        table(NegativeBinomial([7.0], 1.0), 200)[0], geom.logpmf(np.arange(2, 202), 1 / 8), rtol=1e-11
    )
    near = table(NegativeBinomial(MEANS, LEAST_SPREAD / 1000), 1000)
    np.testing.assert_allclose(np.exp(near), np.exp(table(Poisson(MEANS), 1000)), atol=1e-5)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_probabilities_of_all_lengths_sum_to_1(prior):
    sums = np.exp(table(prior(MEANS[1:], 0.2))).sum(axis=1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    narrow = np.exp(table(prior([30.3, 55.5], 0.001))).sum(axis=1)
    np.testing.assert_allclose(narrow, 1.0, atol=1e-2)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PRIORS), st.floats(0.0, 3000.0), st.floats(0.01, 4.0))
def test_a_prior_that_declares_it_is_concave_is_concave(prior, mean, spread):
    chosen = prior([mean], spread)
    bend = np.diff(table(chosen, 3000)[0], n=2)
    scale = np.abs(table(chosen, 3000)).max()
    assert np.isfinite(table(chosen, 3000)).all()
    if chosen.is_log_concave:
        assert bend.max() <= 1e-12 * scale + 1e-10


def test_priors_that_are_not_concave_are_not_declared_as_concave():
    assert np.diff(table(NegativeBinomial([30.0], 1.5))[0], n=2).max() > 1e-6
    assert not NegativeBinomial([30.0, 30.0], [0.5, 1.5]).is_log_concave
    assert NegativeBinomial([30.0, 30.0], [0.5, 1.0]).is_log_concave
    assert np.diff(table(LogNormal([30.0], 0.5))[0], n=2).max() > 1e-6
    assert not LogNormal([30.0], 0.5).is_log_concave
    assert Gaussian([30.0], 5.0).is_log_concave


@pytest.mark.parametrize("prior", PRIORS)
def test_random_cases_reach_the_score_of_trying_every_start(prior):
    rng = np.random.default_rng(8)
    for i in range(150):
        T = int(rng.integers(1, 50))
        M, N = int(rng.integers(1, min(T, 6) + 1)), 3
        log_probs = np.log(rng.dirichlet(np.ones(N), T))
        transcript = rng.integers(0, N, M)
        means = rng.choice([0.0, 0.3, 4.0, 20.0, 5000.0], M)
        chosen = prior(means, rng.choice([0.05, 0.5, 1.0, 2.0], M) if i % 2 else 0.4)
        cap = None if i % 3 else int(rng.integers(-(-T // M), T + 1))
        assert chosen.longest is None
        lengths, score = best_lengths(log_probs, transcript, chosen, max_length=cap)
        full = chosen.terms(transcript, T).table()
        assert score == pytest.approx(best_score_by_recursion(log_probs, transcript, full, cap), rel=1e-10, abs=1e-10)
        assert (lengths.sum(), lengths.min() >= 1) == (T, True)


def test_a_wide_prior_lets_the_frames_decide_where_a_poisson_does_not():
    labels = np.repeat([0, 1], [30, 170])
    log_probs = np.where(labels[:, None] == [0, 1], np.log(0.6), np.log(0.4))
    found = [
        best_lengths(log_probs, [0, 1], prior)[0][0]
        for prior in (Poisson([100.0] * 2), NegativeBinomial([100.0] * 2, 0.8))
    ]
    assert found[0] > 60
    assert found[1] == 30


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(
    ("means", "spread", "rule", "place", "value"),
    [
        ([1.0, np.nan], 0.5, "range", "mean of segment 1", ANY),
        ([1.0, 2.0], 0.0, "range", "spread", 0.0),
        ([1.0, 2.0], [0.5, np.inf], "range", "spread", np.inf),
        ([1.0, 2.0], [0.5] * 3, "shape", "number of spreads", 3),
    ],
)
def test_parameters_that_make_no_distribution_are_refused_by_name(prior, means, spread, rule, place, value):
    with refused(rule, place, value, n=1):
        prior(means, spread)


@pytest.mark.parametrize("prior", PRIORS)
def test_priors_made_for_another_transcript_are_refused(prior):
    with refused("shape", "means", 2, n=1):
        prior([1.0, 2.0], 0.5).terms(np.array([0, 1, 0]), 9)

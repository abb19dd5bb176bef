from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import geom, poisson

from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import (
    LEAST_MEAN,
    Flat,
    GeometricPerClass,
    Poisson,
    PoissonPerClass,
    log_factorials,
)
from tests.helpers.oracles_decoding import Tabled, best_score_of_all
from tests.helpers.refusals import refused

TRANSCRIPT = np.array([2, 0, 2])


def test_poisson_log_probabilities_are_those_of_the_normalised_distribution():
    means = [0.001, 0.3, 40.7, 5000.0]
    table = Poisson(means).terms(np.arange(4), 9000).table()
    expected = [poisson.logpmf(np.arange(9001), mean) for mean in means]
    np.testing.assert_allclose(table, expected, rtol=1e-11, atol=1e-9)
    assert np.exp(table[2]).sum() == pytest.approx(1.0, abs=1e-9)


def test_poisson_per_class_gives_each_segment_the_mean_of_its_action():
    per_class = PoissonPerClass([3.0, 5.0, 8.0]).terms(TRANSCRIPT, 20).table()
    per_segment = Poisson([8.0, 3.0, 8.0]).terms(TRANSCRIPT, 20).table()
    np.testing.assert_array_equal(per_class, per_segment)


def test_geometric_log_probabilities_are_those_of_a_loop_that_ends():
    means = [1.0, 1.25, 40.0, 5000.0]
    table = GeometricPerClass(means).terms(np.arange(4), 9000).table()[:, 1:]
    np.testing.assert_allclose(table[1:], [geom.logpmf(np.arange(1, 9001), 1 / mean) for mean in means[1:]], rtol=1e-9)
    assert table[0, 0] == pytest.approx(0, abs=1e-8)
    assert np.isfinite(table).all()
    assert table[0, 1] < -20, "a longer segment of a state of one frame is unlikely, not impossible"


def test_alignment_with_geometric_lengths_is_the_best_of_all():
    random = np.random.default_rng(0)
    for _ in range(30):
        T, M = int(random.integers(1, 9)), int(random.integers(1, 4))
        transcript, means = random.integers(0, 3, min(M, T)), random.choice([1.0, 1.5, 6.0], 3)
        log_probs = np.log(random.dirichlet(np.ones(3), T))
        prior = GeometricPerClass(means)
        table = prior.terms(transcript, T).table()
        expected = best_score_of_all(log_probs, transcript, table)
        assert best_lengths(log_probs, transcript, prior)[1] == pytest.approx(expected, rel=1e-12)


def test_the_likeliest_lengths_are_where_the_log_priors_are_highest():
    for prior in (PoissonPerClass([0.0, 0.3, 3.0, 7.5, 400.0]), GeometricPerClass([1.0, 2.0, 400.0])):
        modes = prior.modes(50)
        terms = prior.terms(np.arange(len(modes)), 50)
        np.testing.assert_allclose(terms.log_probs(modes), terms.table()[:, 1:].max(axis=1), rtol=1e-12)


def test_the_log_probabilities_of_lengths_are_entries_of_the_table():
    for prior in (Poisson([1.5, 2.0, 30.0]), PoissonPerClass([3.0, 5.0, 8.0]), Flat(), Tabled(np.eye(3, 21))):
        terms = prior.terms(TRANSCRIPT, 20)
        np.testing.assert_allclose(terms.log_probs([3, 1, 20]), terms.table()[[0, 1, 2], [3, 1, 20]], rtol=1e-15)


def test_a_mean_that_underflowed_to_zero_is_raised_to_the_least_mean():
    zero, least = Poisson([0.0]).terms(np.array([0]), 9), Poisson([LEAST_MEAN]).terms(np.array([0]), 9)
    np.testing.assert_array_equal(zero.table(), least.table())


def test_every_prior_that_declares_it_is_concave_is_concave():
    per_class = (PoissonPerClass([7.0, 0.2, 90.0]), GeometricPerClass([7.0, 0.2, 90.0]))
    for prior in (Poisson([0.001, 0.3, 5000.0]), *per_class, Flat()):
        assert prior.is_log_concave
        assert prior.longest is None
        bend = np.diff(prior.terms(TRANSCRIPT, 3000).table(), n=2, axis=1)
        assert bend.max() <= 1e-10


def test_a_table_is_concave_if_its_values_are():
    assert Tabled([[0, 1, 2, 2, 1]]).is_log_concave
    assert not Tabled([[0, 1, 2, 1, 2]]).is_log_concave
    assert not Tabled([[0, 1, 2, -np.inf, -np.inf]]).is_log_concave
    assert Tabled([[-np.inf, 1, 2]]).is_log_concave, "length 0 is not used"
    assert Tabled([[0, 1, 2]]).longest == 2


def test_log_factorials_grow_by_the_logarithm_of_each_number():
    values = log_factorials(5000)
    assert len(values) == 5001
    np.testing.assert_allclose(np.diff(values), np.log(np.arange(1, 5001)), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(log_factorials(3), values[:4])


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize(
    ("prior", "of"), [(Poisson, "segment"), (PoissonPerClass, "action"), (GeometricPerClass, "action")]
)
def test_means_that_are_not_lengths_are_refused_all_at_once(prior, of, value):
    with refused("range", n=2) as refusal:
        prior([value, 2.0, value])
    assert refusal.places == [f"mean of {of} 0", f"mean of {of} 2"]
    assert repr(refusal.values) == repr([value, value])


def test_priors_made_for_another_transcript_are_refused():
    with refused("shape", "means", 2, n=1) as refusal:
        Poisson([1.0, 2.0]).terms(TRANSCRIPT, 9)
    assert "3" in refusal.problems[0].expected
    with refused("shape", "means", 2, n=1) as refusal:
        GeometricPerClass([1.0, 2.0]).terms(TRANSCRIPT, 9)
    assert "more than 2" in refusal.problems[0].expected

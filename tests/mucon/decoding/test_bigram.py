"""The search over all transcripts under a bigram, against all transcripts and all lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mucon.decoding.alignment import best_lengths
from mucon.decoding.bigram import best_under_bigram, bigram_of
from mucon.decoding.length_priors import Flat, Poisson, PoissonPerClass
from mucon.decoding.spread_priors import LogNormal, NegativeBinomial
from tests.helpers.refusals import refused

N = 3
MEANS = np.array([1.5, 4.0, 2.5])
PRIORS = {
    "flat": (Flat(), lambda _: Flat()),
    "poisson": (PoissonPerClass(MEANS), lambda actions: Poisson(MEANS[actions])),
    "negative binomial": (NegativeBinomial(MEANS, 0.7), lambda actions: NegativeBinomial(MEANS[actions], 0.7)),
    "log-normal": (LogNormal(MEANS, 0.7), lambda actions: LogNormal(MEANS[actions], 0.7)),
}
TRANSCRIPTS, COUNTS = ((0, 1, 0), (0, 2), (1, 1, 2), (2,)), (3, 1, 2, 1)


def log_probs(T: int, seed: int) -> np.ndarray:
    return np.log(np.random.default_rng(seed).dirichlet(np.full(N, 0.7), T))


def by_brute_force(evidence, bigram, per_segment, max_length):
    """The highest score over all transcripts of up to T actions, each aligned exactly."""
    best = -np.inf
    for M in range(1, len(evidence) + 1):
        for transcript in itertools.product(range(N), repeat=M):
            path = [N, *transcript, N]
            prior = sum(bigram[a, b] for a, b in itertools.pairwise(path))
            if prior == -np.inf or (max_length is not None and M * max_length < len(evidence)):
                continue
            actions = np.array(transcript)
            score = best_lengths(evidence, actions, per_segment(actions), max_length=max_length)[1] + prior
            best = max(best, score)
    return best


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize(("T", "max_length"), [(1, None), (5, None), (6, 3)])
def test_the_search_finds_the_best_of_all_transcripts(name, T, max_length):
    prior, per_segment = PRIORS[name]
    bigram = bigram_of(TRANSCRIPTS, COUNTS, N)
    for seed in range(3):
        evidence = log_probs(T, seed)
        found, score = best_under_bigram(evidence, bigram, prior, max_length=max_length)
        assert score == pytest.approx(by_brute_force(evidence, bigram, per_segment, max_length))
        path = [N, *found.transcript.tolist(), N]
        own = sum(bigram[a, b] for a, b in itertools.pairwise(path))
        lengths, aligned = best_lengths(
            evidence, found.transcript, per_segment(found.transcript), max_length=max_length
        )
        assert score == pytest.approx(own + aligned)
        assert found.lengths.tolist() == lengths.tolist()


def test_a_bigram_allows_transcripts_that_no_training_video_has():
    bigram = bigram_of([(0, 1), (1, 2), (2, 0)], [1, 1, 1], N)
    labels = np.repeat([0, 1, 2, 0, 1], 20)
    evidence = np.log(np.where(np.arange(N) == labels[:, None], 0.9, 0.05))
    found, _ = best_under_bigram(evidence, bigram, PoissonPerClass(np.full(N, 20.0)))
    assert found.transcript.tolist() == [0, 1, 2, 0, 1]
    assert found.lengths.tolist() == [20] * 5


def test_a_recording_of_real_size_is_decoded():
    rng = np.random.default_rng(0)
    transcripts = [tuple(rng.integers(0, 13, 28).tolist()) for _ in range(10)]
    evidence = np.log(rng.dirichlet(np.full(13, 0.3), 3300)).astype(np.float32)
    bigram = bigram_of(transcripts, [1] * 10, 13)
    found, score = best_under_bigram(evidence, bigram, NegativeBinomial(np.full(13, 118.0), 0.6))
    assert found.n_frames == 3300
    assert np.isfinite(score)


def test_what_cannot_be_decoded_is_refused():
    bigram = bigram_of([(0, 1, 2)], [1], N)
    with refused("mismatch", "bigram", 2, n=1):
        best_under_bigram(log_probs(2, 0), bigram, Flat())
    with refused("mismatch", "bigram", 20, n=1):
        best_under_bigram(log_probs(20, 0), bigram, Flat(), max_length=5)
    evidence = log_probs(5, 0)
    evidence[3, 1] = np.nan
    with refused("range", "frame_log_probs[3, 1]", n=1):
        best_under_bigram(evidence, bigram, Flat())

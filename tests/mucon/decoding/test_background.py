"""The offset of the background, and the rules that set it."""

from __future__ import annotations

import numpy as np
import pytest

from mucon.decoding import background
from mucon.decoding.background import (
    Observed,
    aligned,
    likeliest_offset,
    lowered,
    lowest_score_offset,
    most_accurate_offset,
    offset_of_share,
)

TRUE = (30, 50, 40)
"""Lengths of background, action 1, background; 70 of 120 frames are background."""


def over_claimed(by: float, seed: int = 0, n: int = 4) -> list[np.ndarray]:
    """Log posteriors `[T, 2]` of frames that are noisy beside the borders, with the background's raised by so much."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        logit = np.repeat([2.0, -2.0, 2.0], TRUE) + np.convolve(rng.normal(0, 2.5, sum(TRUE)), np.ones(5) / 5, "same")
        for border in (30, 80):
            logit[border - 12 : border + 12] = rng.normal(0, 0.3, 24) + np.where(np.arange(24) < 12, 0.4, -0.4) * (
                1 if border == 30 else -1
            )
        logit += by
        found.append(np.stack([-np.logaddexp(0, -logit), -np.logaddexp(0, logit)], axis=1))
    return found


def observed(log_probs) -> list[Observed]:
    return [Observed.of(values, (0, 1, 0), (0,)) for values in log_probs]


def share_of_truth() -> float:
    return (TRUE[0] + TRUE[2]) / sum(TRUE)


def test_the_offset_is_a_change_of_the_classifiers_bias():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(7, 4))
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    biased = logits - 1.3 * np.isin(np.arange(4), (1, 3))
    expected = biased - np.log(np.exp(biased).sum(1, keepdims=True))
    np.testing.assert_allclose(lowered(log_probs, (1, 3), 1.3), expected, rtol=1e-12)
    assert lowered(log_probs, (1, 3), 0.0) is log_probs
    assert lowered(log_probs, (), 1.3) is log_probs


def test_more_offset_gives_less_background():
    recordings = observed(over_claimed(3.0))
    shares = [aligned(recordings, offset).share for offset in (-2, 0, 2, 4, 8)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > share_of_truth() > shares[-1]


@pytest.mark.parametrize("by", [-2.0, 0.0, 3.0])
def test_the_offset_of_a_stated_share_gives_that_share(by):
    recordings = observed(over_claimed(by))
    offset = offset_of_share(recordings, share_of_truth())
    assert aligned(recordings, offset).share == pytest.approx(share_of_truth(), abs=0.02)
    assert offset == pytest.approx(by, abs=1.0)


def test_a_share_that_no_offset_gives_ends_at_the_end_of_the_range():
    recordings = [Observed.of(values, (0,), (0,)) for values in over_claimed(0.0)]
    assert offset_of_share(recordings, 0.2) == pytest.approx(background.FARTHEST, abs=0.02)


@pytest.mark.parametrize("by", [-1.0, 0.0, 2.0])
def test_the_likeliest_offset_is_the_one_by_which_the_labels_were_drawn(by):
    rng = np.random.default_rng(1)
    odds = rng.normal(0, 2, 20_000)
    labels = rng.random(20_000) < 1 / (1 + np.exp(by - odds))
    parts = np.split(-np.logaddexp(0, -odds), [4_000]), np.split(labels, [4_000])
    offset = likeliest_offset(*parts)
    assert offset == pytest.approx(by, abs=0.1)

    def likelihood(x):
        logit = odds - x
        return np.where(labels, -np.logaddexp(0, -logit), -np.logaddexp(0, logit)).sum()

    assert likelihood(offset) >= max(likelihood(offset - 0.01), likelihood(offset + 0.01))


def test_frames_that_are_surely_background_or_surely_not_have_a_likeliest_offset():
    assert np.isfinite(likeliest_offset([np.array([0.0, -1e5, -1.0])], [np.array([True, False, True])]))


def test_the_most_accurate_offset_undoes_the_claim():
    recordings = observed(over_claimed(2.0))
    found = most_accurate_offset(recordings, [TRUE] * len(recordings))
    assert 1.0 <= found <= 3.0

    def accuracy(offset):
        labels = [np.repeat([0, 1, 0], own) for own in aligned(recordings, offset).lengths]
        return np.mean([one == np.repeat([0, 1, 0], TRUE) for one in labels])

    assert accuracy(found) > accuracy(0.0)


def test_the_lowest_score_is_between_all_and_no_background():
    recordings = observed(over_claimed(1.5))
    found = lowest_score_offset(recordings)
    scores = {offset: aligned(recordings, offset).score for offset in background.OFFSETS}
    assert scores[found] == min(scores.values())


def test_a_recording_keeps_the_columns_of_its_own_actions():
    log_probs = np.arange(15.0).reshape(3, 5)
    one = Observed.of(log_probs, (4, 2, 4), (2, 3))
    assert one.actions.tolist() == [2, 4]
    assert one.transcript.tolist() == [1, 0, 1]
    assert one.background.tolist() == [True, False]
    assert one.log_probs.tolist() == log_probs[:, [2, 4]].tolist()

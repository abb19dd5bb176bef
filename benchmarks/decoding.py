"""Best lengths of a transcript, exact at every frame, against trying every start of every segment."""

from __future__ import annotations

import numpy as np
from harness import compare

from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import Poisson, Tabled

CASES = ((2100, 7, 48, 20), (9700, 25, 48, 7))
"""T, M, N and how many pairs are timed."""


def problem(T: int, M: int, N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-softmax of random logits [T N] in float32, a transcript [M] and mean lengths [M]."""
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2.0, size=(T, N))
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    means = rng.dirichlet(np.full(M, 4.0)) * T
    return log_probs.astype(np.float32), rng.integers(0, N, M), means


class AnyShape(Tabled):
    """The same prior without the word that it is concave, so that every start is tried."""

    @property
    def is_log_concave(self) -> bool:
        """False."""
        return False


def main() -> None:
    for T, M, N, n in CASES:
        log_probs, transcript, means = problem(T, M, N)
        prior = Poisson(means)
        any_shape = AnyShape(prior.terms(transcript, T).table())
        ours = best_lengths(log_probs, transcript, prior)[1]
        brute = best_lengths(log_probs, transcript, any_shape)[1]
        if abs(ours - brute) > 1e-9 * abs(brute):
            raise AssertionError(f"T={T} M={M}: {ours} is not the best score, {brute}")
        compare(
            "decoding",
            f"T={T} M={M}",
            lambda log_probs=log_probs, transcript=transcript, prior=prior: best_lengths(log_probs, transcript, prior),
            lambda log_probs=log_probs, transcript=transcript, prior=any_shape: best_lengths(
                log_probs, transcript, prior
            ),
            of="brute force",
            n=n,
        )


if __name__ == "__main__":
    main()

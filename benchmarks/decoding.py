"""Exact decoding: one transcript, all training transcripts, and many recordings in threads.

`MUCON_DATA_DIR` is the folder that holds `breakfast_annotations`, for real transcripts; without it they are made up.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import compare

from mucon.decoding.alignment import best_lengths
from mucon.decoding.batches import Job, decode_many
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.length_priors import LengthTerms, Poisson, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.decoding.transcripts import best_of_transcripts

N_ACTIONS = 48
CASES = ((2100, 7, 20), (9700, 25, 7))
"""T, M and how many pairs are timed."""

Segments = list[tuple[list[int], list[int]]]


def problem(T: int, M: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-softmax of random logits [T N] in float32, a transcript [M] and mean lengths [M]."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2.0, size=(T, N_ACTIONS))
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    means = rng.dirichlet(np.full(M, 4.0)) * T
    return log_probs.astype(np.float32), rng.integers(0, N_ACTIONS, M), means


@dataclass(frozen=True)
class AnyShape:
    """A prior that is not declared as log-concave, so that every start is tried."""

    prior: Poisson
    is_log_concave = False
    longest = None

    def terms(self, transcript: np.ndarray, max_length: int) -> LengthTerms:
        """The same log priors."""
        return self.prior.terms(transcript, max_length)


def one_transcript(T: int, M: int, n: int) -> None:
    """Against trying every start of every segment."""
    log_probs, transcript, means = problem(T, M)
    prior = Poisson(means)
    any_shape = AnyShape(prior)
    ours = best_lengths(log_probs, transcript, prior)[1]
    brute = best_lengths(log_probs, transcript, any_shape)[1]
    if abs(ours - brute) > 1e-9 * abs(brute):
        raise AssertionError(f"T={T} M={M}: {ours} is not the best score, {brute}")
    compare(
        "decoding",
        f"T={T} M={M}",
        lambda: best_lengths(log_probs, transcript, prior),
        lambda: best_lengths(log_probs, transcript, any_shape),
        of="brute force",
        n=n,
    )


def training_segments() -> tuple[str, Segments]:
    """Where they are from, and the transcript and the lengths of every training recording of Breakfast's split 1."""
    folder = os.environ.get("MUCON_DATA_DIR")
    if not folder:
        return "made up", list(made_up_segments(np.random.default_rng(0)))
    annotations = Path(folder) / "breakfast_annotations"
    names = (annotations / "splits" / "train.split1.bundle").read_text().split()
    with (annotations / "transcripts.csv").open(newline="") as file:
        rows = {row["video"]: row for row in csv.DictReader(file)}
    chosen = [rows[name.removesuffix(".txt")] for name in names]
    actions = sorted({action for row in chosen for action in row["transcript"].split()})
    return "Breakfast split 1", [
        ([actions.index(action) for action in row["transcript"].split()], [int(n) for n in row["lengths"].split()])
        for row in chosen
    ]


def made_up_segments(rng: np.random.Generator, n_distinct: int = 208) -> Iterator[tuple[list[int], list[int]]]:
    """Ten recipes with dropped and repeated steps between two of silence, until there are `n_distinct` transcripts."""
    recipes = [rng.permutation(np.arange(1, N_ACTIONS))[:size] for size in (3, 3, 4, 4, 5, 7, 8, 9, 10, 12)]
    seen: set[tuple[int, ...]] = set()
    while len(seen) < n_distinct:
        steps = recipes[rng.integers(len(recipes))]
        kept = np.repeat(steps, rng.choice(3, len(steps), p=(0.2, 0.75, 0.05)))
        transcript = [0, *kept.tolist(), 0][: None if rng.random() < 0.9 else -1]
        seen.add(tuple(transcript))
        yield transcript, rng.lognormal(5.1, 0.9, len(transcript)).astype(int).tolist()


def all_training_transcripts(T: int, n: int) -> None:
    """One walk over their prefix tree, against aligning each by itself. Random evidence: nothing can be left out."""
    source, segments = training_segments()
    transcripts = sorted({tuple(transcript) for transcript, _ in segments})
    tree = PrefixTree.of(transcripts)
    means = class_mean_lengths(segments, N_ACTIONS)
    prior = PoissonPerClass(means)
    log_probs, _, _ = problem(T, 1)

    def separately() -> float:
        return max(best_lengths(log_probs, transcript, prior)[1] for transcript in transcripts)

    ours, best = best_of_transcripts(log_probs, tree, means)[2], separately()
    if abs(ours - best) > 1e-9 * abs(best):
        raise AssertionError(f"{ours} is not the best score, {best}")
    compare(
        "decoding",
        f"all training transcripts T={T} ({len(transcripts)} {source}, {len(tree.actions)} nodes)",
        lambda: best_of_transcripts(log_probs, tree, means),
        separately,
        of=f"{len(transcripts)} separate alignments",
        n=n,
    )


def many_recordings(n_videos: int, threads: int, n: int) -> None:
    """In threads against in one; the floor is 1 / threads."""
    problems = [problem(2100, 7, seed) for seed in range(20)]
    jobs = [
        Job(str(i), lambda a=log_probs, b=transcript, c=means: best_lengths(a, b, Poisson(c)))
        for i, (log_probs, transcript, means) in enumerate(problems[i % 20] for i in range(n_videos))
    ]
    compare(
        "decoding",
        f"{n_videos} videos {threads} threads",
        lambda: list(decode_many(jobs, threads=threads)),
        lambda: list(decode_many(jobs, threads=1)),
        of="one thread",
        n=n,
        threads=threads,
        floor=1 / threads,
    )


def main() -> None:
    for T, M, n in CASES:
        one_transcript(T, M, n)
    all_training_transcripts(2100, n=9)
    many_recordings(1000, threads=2, n=5)


if __name__ == "__main__":
    main()

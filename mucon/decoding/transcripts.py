"""Chooses the transcript that fits a recording best, among all training transcripts or a few of the segment branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Floats, Ints
from mucon.decoding.alignment import FLOOR, as_evidence, best_lengths, means_problem, unusable
from mucon.decoding.length_priors import LengthPrior, PerClass, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.errors import InputError, Problem, check_ranges

TIE = 1e-12
"""Relative difference below which scores are equal; rounding depends on the order of the sums."""


def best_of_transcripts(
    frame_log_probs: ArrayLike,
    transcripts: PrefixTree | Iterable[ArrayLike],
    prior: PerClass | ArrayLike,
    *,
    max_length: int | None = None,
    beam: int | None = None,
) -> tuple[int, Ints, float]:
    """Finds the transcript with the best alignment to the frames; the score is that of `best_lengths`.

    All transcripts are equally likely. Transcripts with more segments than frames, or too few for `max_length`, are
    skipped. The first of equally good transcripts wins. The search is one compiled walk over the prefix tree,
    O(nodes T log T) time and O((depth + N) T) memory; subtrees that cannot contain the best transcript are skipped.
    The search is exact unless `beam` is given: then only the prefixes of each length with the `beam` highest upper
    bounds are followed, and the score is at most the exact one. A beam as wide as the tree is exact.

    Source: alignment against the training transcripts, which the paper compares with (NNV, CDFL), section 5.

    Args:
        frame_log_probs: `[T, N]` as in `best_lengths`.
        transcripts: each `[M]`; pass the same `PrefixTree` for many recordings to build it once.
        prior: log prior of the lengths, or means `[N]` in frames (see `class_mean_lengths`) for `PoissonPerClass`.
        max_length: longest segment in frames; None for no limit.
        beam: prefixes of each length that are followed, at least 1; None for all.

    Returns:
        The index of the transcript, `[M]` int64 frames, and the score.

    Raises:
        InputError: no transcript, an empty one, an id outside 0..N-1, no transcript that can fill the recording, an
            invalid mean, a log probability of the transcripts' actions that is NaN or +inf, or a beam or max_length
            below 1.

    >>> log_probs = np.log([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> index, lengths, _ = best_of_transcripts(log_probs, [[0, 1], [0, 2], [2]], [2.0, 1.0, 1.0])
    >>> index, lengths.tolist()
    (1, [2, 1])
    """
    evidence = as_evidence(frame_log_probs)
    tree = transcripts if isinstance(transcripts, PrefixTree) else PrefixTree.of(transcripts)
    lengths_of = prior if isinstance(prior, PerClass) else PoissonPerClass(prior)
    cap = _checked(evidence.shape, tree, lengths_of, max_length, beam)
    scores = _scores(evidence, tree, lengths_of, cap, beam)
    top = scores.max()
    equal = np.flatnonzero(scores >= top - TIE * (1.0 + abs(top)))
    node = int(equal[np.argmin(tree.transcripts[equal])])
    path = _path(tree, node)
    lengths, score = best_lengths(evidence, path, lengths_of, max_length=max_length)
    return int(tree.transcripts[node]), lengths, score


def _scores(evidence: NDArray[np.floating], tree: PrefixTree, prior: PerClass, cap: int, beam: int | None) -> Floats:
    """Best score `[K]` of the transcript that ends at each node; -inf if there is none or it cannot be the best."""
    from mucon.decoding import kernels

    T, N = evidence.shape
    terms = prior.terms(np.arange(N), cap)
    used = np.bincount(tree.actions, minlength=N) > 0
    gained, still, bad_frame = kernels.cumulate(evidence, used, terms.slopes, FLOOR)
    if bad_frame >= 0:
        raise InputError(unusable(evidence, np.flatnonzero(used), bad_frame))
    complete = (tree.transcripts >= 0) & (tree.depths <= T) & (tree.depths * cap >= T)
    peaks = terms.log_probs(prior.modes(cap))
    nodes = (tree.depths, tree.stops, complete, tree.actions)
    problem = (*nodes, *kernels.depths_below(*nodes, peaks), gained, still)
    lengths_of = (terms.constants, peaks, np.ascontiguousarray(terms.shapes[0, cap::-1]), cap)
    scores: Floats
    if beam is None:
        scores, _ = kernels.walk(*problem, *lengths_of)
    else:
        widest = int(np.bincount(tree.depths).max())
        scores, _ = kernels.walk_beam(*problem, *lengths_of, min(beam, widest))
    return scores


def _checked(
    shape: tuple[int, ...], tree: PrefixTree, prior: PerClass, max_length: int | None, beam: int | None
) -> int:
    """The longest segment in frames."""
    T, N = shape
    highest = int(tree.actions.max())
    check_ranges(
        "",
        [
            ("max_length", max_length, "at least 1 frame", max_length is None or max_length >= 1),
            ("beam", beam, "at least 1, or none for exact search", beam is None or beam >= 1),
            ("transcripts", highest, f"action ids from 0 to {N - 1}", highest < N),
        ],
    )
    n_means = np.asarray(prior.means).size
    if n_means != N:
        raise InputError(means_problem(n_means, N))
    cap = T if max_length is None else min(T, max_length)
    depths = tree.depths[tree.transcripts >= 0]
    if not ((depths <= T) & (depths * cap >= T)).any():
        message = (
            f"none of {tree.n_transcripts} transcripts with {depths.min()} to {depths.max()} segments of 1 to {cap} "
            f"frames fits {T} frames"
        )
        raise InputError(Problem(rule="mismatch", place="transcripts", value=T, message=message))
    return cap


def _path(tree: PrefixTree, node: int) -> Ints:
    """The actions `[M]` of a node's prefix."""
    depth = int(tree.depths[node])
    before = tree.depths[: node + 1]
    nodes = [int(np.flatnonzero(before == level)[-1]) for level in range(1, depth + 1)]
    return tree.actions[nodes]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A possible transcript of a recording.

    Attributes:
        transcript: `[M]` action ids.
        log_prob: prior log probability of the transcript; with -inf it wins only without competitors.
        prior: prior of its lengths.
    """

    transcript: ArrayLike
    log_prob: float
    prior: LengthPrior


def best_joint(
    frame_log_probs: ArrayLike, candidates: Sequence[Candidate], *, max_length: int | None = None
) -> tuple[int, Ints, float]:
    """Finds the candidate with the highest joint score.

    The joint score is the candidate's log probability plus the score of its best alignment (evidence and length
    prior). Candidates with more segments than frames, or too few for their longest length, are skipped. The first of
    equally good candidates wins. Each candidate is aligned exactly.

    Source: the paper takes the transcript of the greedy decoder, which is the case of one candidate.

    Args:
        frame_log_probs: `[T, N]` as in `best_lengths`.
        candidates: at least one.
        max_length: longest segment in frames; None for no limit.

    Returns:
        The index of the candidate, `[M]` int64 frames, and the joint score.

    Raises:
        InputError: no candidate, none that can fill the recording, a log probability that is NaN or +inf, or an
            error of `best_lengths`.
    """
    problems = [
        Problem(rule="range", place=f"candidate {i}", value=candidate.log_prob, expected="a number or -inf")
        for i, candidate in enumerate(candidates)
        if not candidate.log_prob < np.inf
    ]
    if problems:
        raise InputError(problems)
    evidence = as_evidence(frame_log_probs)
    best: tuple[int, Ints, float] | None = None
    for i, candidate in enumerate(candidates):
        if not _fits(candidate, len(evidence), max_length):
            continue
        lengths, score = best_lengths(evidence, candidate.transcript, candidate.prior, max_length=max_length)
        if best is None or score + candidate.log_prob > best[2]:
            best = i, lengths, score + candidate.log_prob
    if best is None:
        message = f"none of {len(candidates)} candidates fits {len(evidence)} frames"
        raise InputError(Problem(rule="mismatch", place="candidates", value=len(evidence), message=message))
    return best


def _fits(candidate: Candidate, n_frames: int, max_length: int | None) -> bool:
    M = np.asarray(candidate.transcript).size
    limits = [limit for limit in (candidate.prior.longest, max_length) if limit is not None]
    return 1 <= M <= n_frames and (not limits or M * min(limits) >= n_frames)

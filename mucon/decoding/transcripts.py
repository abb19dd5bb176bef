"""Which of many transcripts fits a recording best: all training transcripts, or a few from the segment branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.decoding.alignment import FLOOR, as_evidence, best_lengths, unusable
from mucon.decoding.length_priors import LengthPrior, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.errors import InputError

Ints = NDArray[np.int64]

TIE = 1e-12
"""Scores that differ by less, relative to the highest, are equal: they differ by the order of rounded sums."""


def best_of_transcripts(
    frame_log_probs: ArrayLike,
    transcripts: PrefixTree | Iterable[ArrayLike],
    class_means: ArrayLike,
    *,
    max_length: int | None = None,
    beam: int | None = None,
) -> tuple[int, Ints, float]:
    """The transcript that aligns best with the frames, its lengths, and the score as `best_lengths` defines it.

    All transcripts are equally likely beforehand; lengths have the prior `PoissonPerClass(class_means)`. Those with
    more segments than frames, or too few for `max_length`, are skipped. Among equal scores the first one given wins.
    The search is one compiled walk over the prefix tree, O(nodes T log T) time and O((depth + N) T) memory; subtrees
    that cannot hold the best transcript are left out, which changes nothing. It is exact unless `beam` is given: then
    only the prefixes of each length with the `beam` highest bounds are followed, and the score is at most the exact
    one. A beam as wide as the tree is exact too.

    Source: alignment against the training transcripts, which the paper compares with (NNV, CDFL), section 5.

    Args:
        frame_log_probs: `[T N]` as in `best_lengths`.
        transcripts: each `[M]`; make the `PrefixTree` once for many recordings.
        class_means: `[N]` frames, as `class_mean_lengths` finds them.
        max_length: the longest segment in frames, None without limit.
        beam: prefixes followed of each length, at least 1, None for all.

    Returns:
        The index of the transcript, `[M]` int64 frames, and the score.

    Raises:
        InputError: no transcript, an empty one, an id outside 0..N-1, no transcript that can fill the recording,
            a mean that is no length, a log probability of the transcripts' actions that is NaN or +inf, or a beam
            or max_length below 1.

    >>> log_probs = np.log([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> index, lengths, _ = best_of_transcripts(log_probs, [[0, 1], [0, 2], [2]], [2.0, 1.0, 1.0])
    >>> index, lengths.tolist()
    (1, [2, 1])
    """
    evidence = as_evidence(frame_log_probs)
    tree = transcripts if isinstance(transcripts, PrefixTree) else PrefixTree.of(transcripts)
    cap = _checked(evidence.shape, tree, class_means, max_length, beam)
    scores = _scores(evidence, tree, class_means, cap, beam)
    top = scores.max()
    equal = np.flatnonzero(scores >= top - TIE * (1.0 + abs(top)))
    node = int(equal[np.argmin(tree.transcripts[equal])])
    path = _path(tree, node)
    lengths, score = best_lengths(evidence, path, PoissonPerClass(class_means), max_length=max_length)
    return int(tree.transcripts[node]), lengths, score


def _scores(
    evidence: NDArray[np.floating], tree: PrefixTree, class_means: ArrayLike, cap: int, beam: int | None
) -> NDArray[np.float64]:
    """`[K]`, the best score of the transcript that ends at a node, -inf where none does or it cannot be the best."""
    from mucon.decoding import kernels

    T, N = evidence.shape
    terms = PoissonPerClass(class_means).terms(np.arange(N), cap)
    modes = np.clip(np.floor(np.asarray(class_means, dtype=np.float64)[:N]), 1, cap)
    used = np.bincount(tree.actions, minlength=N) > 0
    gained, still, bad_frame = kernels.cumulate(evidence, used, terms.slopes, FLOOR)
    if bad_frame >= 0:
        raise InputError(unusable(evidence, np.flatnonzero(used), bad_frame))
    complete = (tree.transcripts >= 0) & (tree.depths <= T) & (tree.depths * cap >= T)
    peaks = terms.log_probs(modes)
    nodes = (tree.depths, tree.stops, complete, tree.actions)
    problem = (*nodes, *kernels.depths_below(*nodes, peaks), gained, still)
    prior = (terms.constants, peaks, np.ascontiguousarray(terms.shapes[0, cap::-1]), cap)
    scores: NDArray[np.float64]
    if beam is None:
        scores, _ = kernels.walk(*problem, *prior)
    else:
        widest = int(np.bincount(tree.depths).max())
        scores, _ = kernels.walk_beam(*problem, *prior, min(beam, widest))
    return scores


def _checked(
    shape: tuple[int, ...], tree: PrefixTree, class_means: ArrayLike, max_length: int | None, beam: int | None
) -> int:
    """The longest segment."""
    T, N = shape
    if max_length is not None and max_length < 1:
        raise InputError(f"max_length is at least 1 frame, it is {max_length}: raise it")
    if beam is not None and beam < 1:
        raise InputError(f"a beam follows at least 1 prefix, it is {beam}: raise it, or give none for exact search")
    if tree.actions.max() >= N:
        raise InputError(
            f"an action is one of 0..{N - 1}, the transcripts have {tree.actions.max()}: correct the transcripts"
        )
    n_means = np.asarray(class_means).size
    if n_means != N:
        raise InputError(f"each action has a mean length, {n_means} means for {N} actions: give N means")
    cap = T if max_length is None else min(T, max_length)
    depths = tree.depths[tree.transcripts >= 0]
    if not ((depths <= T) & (depths * cap >= T)).any():
        raise InputError(
            f"a transcript has at most as many segments as the recording has frames and can fill it, none of "
            f"{tree.n_transcripts} transcripts with {depths.min()} to {depths.max()} segments of at most {cap} frames "
            f"fits {T} frames: give one that does, or leave the recording out"
        )
    return cap


def _path(tree: PrefixTree, node: int) -> Ints:
    """`[M]`, the actions of the prefix that a node stands for."""
    depth = int(tree.depths[node])
    before = tree.depths[: node + 1]
    nodes = [int(np.flatnonzero(before == level)[-1]) for level in range(1, depth + 1)]
    return tree.actions[nodes]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A transcript that a recording may have.

    Attributes:
        transcript: `[M]`, action ids.
        log_prob: how likely it is beforehand; -inf is allowed, it then never wins against another.
        prior: of its lengths.
    """

    transcript: ArrayLike
    log_prob: float
    prior: LengthPrior


def best_joint(
    frame_log_probs: ArrayLike, candidates: Sequence[Candidate], *, max_length: int | None = None
) -> tuple[int, Ints, float]:
    """The candidate with the highest joint score, its lengths, and that score.

    The joint score is the candidate's log probability plus the score of its best alignment (evidence and length
    prior). Candidates with more segments than frames, or too few for their longest length, are skipped. Among equal
    scores the first one wins. Each candidate is aligned exactly.

    Source: the paper takes the one transcript of the greedy decoder; with that as the only candidate this is the same.

    Args:
        frame_log_probs: `[T N]` as in `best_lengths`.
        candidates: at least one.
        max_length: the longest segment in frames, None without limit.

    Returns:
        The index of the candidate, `[M]` int64 frames, and the joint score.

    Raises:
        InputError: no candidate, none that can fill the recording, a log probability that is NaN or +inf, or what
            `best_lengths` refuses.
    """
    problems = [
        f"a transcript's log probability is a number or -inf, candidate {i} has {one.log_prob}: correct it"
        for i, one in enumerate(candidates)
        if not one.log_prob < np.inf
    ]
    if problems:
        raise InputError(problems)
    evidence = as_evidence(frame_log_probs)
    found: tuple[int, Ints, float] | None = None
    for i, one in enumerate(candidates):
        if not _fits(one, len(evidence), max_length):
            continue
        lengths, score = best_lengths(evidence, one.transcript, one.prior, max_length=max_length)
        if found is None or score + one.log_prob > found[2]:
            found = i, lengths, score + one.log_prob
    if found is None:
        raise InputError(
            f"at least one transcript fits the recording, none of {len(candidates)} candidates fits "
            f"{len(evidence)} frames: give one with 1 to {len(evidence)} segments that are long enough"
        )
    return found


def _fits(candidate: Candidate, n_frames: int, max_length: int | None) -> bool:
    M = np.asarray(candidate.transcript).size
    limits = [limit for limit in (candidate.prior.longest, max_length) if limit is not None]
    return 1 <= M <= n_frames and (not limits or M * min(limits) >= n_frames)

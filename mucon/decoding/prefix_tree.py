"""A prefix tree of transcripts: a common beginning is one path, so that decoding computes it once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Ints
from mucon.errors import InputError, Problem


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTree:
    """Distinct prefixes of transcripts, one node each, in depth-first order with ascending actions.

    Attributes:
        actions: `[K]`, last action of each prefix.
        depths: `[K]`, number of its actions.
        stops: `[K]`, the node after its subtree.
        transcripts: `[K]`, index of the first transcript equal to the prefix; -1 if there is none.
        n_transcripts: number of transcripts, including duplicates.
    """

    actions: Ints
    depths: Ints
    stops: Ints
    transcripts: Ints
    n_transcripts: int

    @classmethod
    def of(cls, transcripts: Iterable[ArrayLike]) -> PrefixTree:
        """Builds the tree of transcripts, each `[M]` with M at least 1.

        Raises:
            InputError: no transcript, an empty one, or an action below 0.

        >>> tree = PrefixTree.of([[0, 1], [0, 2, 1], [0, 1]])
        >>> tree.actions.tolist(), tree.depths.tolist(), tree.transcripts.tolist()
        ([0, 1, 2, 1], [1, 2, 2, 3], [-1, 0, -1, 1])
        """
        given = [tuple(np.asarray(transcript, dtype=np.int64).reshape(-1).tolist()) for transcript in transcripts]
        _check(given)
        first = {transcript: i for i, transcript in reversed(list(enumerate(given)))}
        actions: list[int] = []
        depths: list[int] = []
        indices: list[int] = []
        before: tuple[int, ...] = ()
        for transcript in sorted(first):
            shared = _n_shared(before, transcript)
            actions += transcript[shared:]
            depths += range(shared + 1, len(transcript) + 1)
            indices += [-1] * (len(transcript) - shared)
            indices[-1] = first[transcript]
            before = transcript
        return cls(np.array(actions), np.array(depths), np.array(_stops(depths)), np.array(indices), len(given))


def _n_shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the longest common prefix."""
    n = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        n += 1
    return n


def _stops(depths: list[int]) -> list[int]:
    """For each node the next node that is not deeper, or the number of nodes."""
    stops = [len(depths)] * len(depths)
    path: list[int] = []
    for node, depth in enumerate(depths):
        while path and depths[path[-1]] >= depth:
            stops[path.pop()] = node
        path.append(node)
    return stops


def _check(transcripts: list[tuple[int, ...]]) -> None:
    if not transcripts:
        raise InputError(Problem(rule="missing", place="transcripts", expected="at least one"))
    problems = [
        Problem(rule="missing", place=f"transcript {i}", expected="at least one action")
        for i, transcript in enumerate(transcripts)
        if not transcript
    ]
    problems += [
        Problem(rule="range", place=f"transcript {i}", value=min(transcript), expected="action ids of at least 0")
        for i, transcript in enumerate(transcripts)
        if transcript and min(transcript) < 0
    ]
    if problems:
        raise InputError(problems)

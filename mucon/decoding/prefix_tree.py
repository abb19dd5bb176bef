"""A prefix tree of transcripts: what they begin with in common is one path, so that decoding does it once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.errors import InputError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTree:
    """Distinct prefixes of transcripts, one node each, in the order depth first with actions ascending.

    Attributes:
        actions: `[K]`, the last action of each prefix.
        depths: `[K]`, how many actions it has.
        stops: `[K]`, the node after the last one that begins with it.
        transcripts: `[K]`, the first given transcript that is this prefix, -1 where none is.
        n_transcripts: how many were given, duplicates too.
    """

    actions: Ints
    depths: Ints
    stops: Ints
    transcripts: Ints
    n_transcripts: int

    @classmethod
    def of(cls, transcripts: Iterable[ArrayLike]) -> PrefixTree:
        """The tree of transcripts, each `[M]` with M at least 1.

        Raises:
            InputError: no transcript, an empty one, or an action below 0.

        >>> tree = PrefixTree.of([[0, 1], [0, 2, 1], [0, 1]])
        >>> tree.actions.tolist(), tree.depths.tolist(), tree.transcripts.tolist()
        ([0, 1, 2, 1], [1, 2, 2, 3], [-1, 0, -1, 1])
        """
        given = [tuple(np.asarray(one, dtype=np.int64).reshape(-1).tolist()) for one in transcripts]
        _check(given)
        first = {one: i for i, one in reversed(list(enumerate(given)))}
        actions: list[int] = []
        depths: list[int] = []
        indices: list[int] = []
        before: tuple[int, ...] = ()
        for one in sorted(first):
            shared = _n_shared(before, one)
            actions += one[shared:]
            depths += range(shared + 1, len(one) + 1)
            indices += [-1] * (len(one) - shared)
            indices[-1] = first[one]
            before = one
        return cls(np.array(actions), np.array(depths), np.array(_stops(depths)), np.array(indices), len(given))


def _n_shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the longest common beginning."""
    n = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        n += 1
    return n


def _stops(depths: list[int]) -> list[int]:
    """For each node the next one that is not deeper, or the number of nodes."""
    stops = [len(depths)] * len(depths)
    path: list[int] = []
    for node, depth in enumerate(depths):
        while path and depths[path[-1]] >= depth:
            stops[path.pop()] = node
        path.append(node)
    return stops


def _check(transcripts: list[tuple[int, ...]]) -> None:
    if not transcripts:
        raise InputError("at least one transcript is compared, the list is empty: give the training transcripts")
    problems = [
        f"a transcript has at least one action, transcript {i} has none: leave it out"
        for i, one in enumerate(transcripts)
        if not one
    ]
    problems += [
        f"an action is 0 or more, transcript {i} has {min(one)}: correct the transcript"
        for i, one in enumerate(transcripts)
        if one and min(one) < 0
    ]
    if problems:
        raise InputError(problems)

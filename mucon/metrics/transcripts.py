"""Similarity of two transcripts: Edit and the matching score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mucon.arrays import Ints


def edit_distance(a: ArrayLike, b: ArrayLike) -> int:
    """The smallest number of insertions, deletions and replacements that turn `a` into `b`.

    >>> edit_distance([1, 2, 3], [1, 3, 3, 4])
    2
    """
    return distance_and_matches(a, b)[0]


def edit_score(target: ArrayLike, prediction: ArrayLike) -> float | None:
    """1 - distance / the longer length; None if both are empty.

    Source: the field's Edit, which the paper adopts (appendix).

    >>> edit_score([1, 2, 3], [1, 3]), edit_score([], [])
    (0.6666666666666667, None)
    """
    longer = max(len(np.atleast_1d(target)), len(np.atleast_1d(prediction)))
    return 1 - edit_distance(target, prediction) / longer if longer else None


def matching_score(target: ArrayLike, prediction: ArrayLike) -> float | None:
    """2 · matches / (|target| + |prediction|), with the matches on a path of fewest edits; None if both are empty.

    The path is that of `distance_and_matches`. Other paths may have more matches: the longest common subsequence may
    require more edits.
    Source: the paper's appendix, matching score.

    >>> matching_score([1, 2, 3], [1, 3])
    0.8
    """
    whole = len(np.atleast_1d(target)) + len(np.atleast_1d(prediction))
    return 2 * distance_and_matches(target, prediction)[1] / whole if whole else None


def distance_and_matches(a: ArrayLike, b: ArrayLike) -> tuple[int, int]:
    """The edit distance, and the number of equal pairs on one path with that many edits.

    Among several such paths, going back from the end, pairing two elements is preferred to inserting one of `b`, and
    that to deleting one of `a`. Exchanging `a` and `b` can therefore change the matches, but not the distance.

    Args:
        a: `[M]`.
        b: `[M']`; the work is one vector operation over `b` for each element of `a`.
    """
    rows = np.asarray(a, dtype=np.int64).reshape(-1)
    columns = np.asarray(b, dtype=np.int64).reshape(-1)
    position = np.arange(len(columns) + 1)
    costs = position.copy()
    matches = np.zeros(len(columns) + 1, dtype=np.int64)
    for i, element in enumerate(rows.tolist(), start=1):
        equal = columns == element
        paired = costs[:-1] + ~equal
        reached = np.concatenate(([i], np.minimum(paired, costs[1:] + 1)))
        new_costs = np.minimum.accumulate(reached - position) + position
        is_paired = np.concatenate(([False], new_costs[1:] == paired))
        is_inserted = ~is_paired & np.concatenate(([False], new_costs[1:] == new_costs[:-1] + 1))
        new_matches = np.where(is_paired, np.concatenate(([0], matches[:-1] + equal)), matches)
        source = np.maximum.accumulate(np.where(is_inserted, 0, position))
        costs, matches = new_costs, new_matches[source]
    return int(costs[-1]), int(matches[-1])


def matches(a: ArrayLike, b: ArrayLike) -> tuple[Ints, Ints]:
    """The equal pairs on the path of `distance_and_matches`: their ascending indices in `a` and in `b`.

    Args:
        a: `[M]`.
        b: `[M']`; needs memory for M · M' costs.

    >>> [indices.tolist() for indices in matches([1, 2, 3], [1, 3])]
    [[0, 2], [0, 1]]
    """
    rows = np.asarray(a, dtype=np.int64).reshape(-1)
    columns = np.asarray(b, dtype=np.int64).reshape(-1)
    position = np.arange(len(columns) + 1)
    costs = np.tile(position, (len(rows) + 1, 1))
    for i, element in enumerate(rows.tolist(), start=1):
        reached = np.concatenate(([i], np.minimum(costs[i - 1, :-1] + (columns != element), costs[i - 1, 1:] + 1)))
        costs[i] = np.minimum.accumulate(reached - position) + position
    pairs = []
    i, j = len(rows), len(columns)
    while i and j:
        if costs[i, j] == costs[i - 1, j - 1] + (rows[i - 1] != columns[j - 1]):
            i, j = i - 1, j - 1
            if rows[i] == columns[j]:
                pairs.append((i, j))
        elif costs[i, j] == costs[i, j - 1] + 1:
            j -= 1
        else:
            i -= 1
    found = np.array(pairs[::-1], dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]

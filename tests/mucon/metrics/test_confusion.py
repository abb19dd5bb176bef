"""The confusion matrix, recall and precision, against frame-by-frame counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mucon.metrics.confusion import (
    DENSE_UP_TO,
    cells_of,
    confusion_matrix,
    frames_per_action,
    precision_per_action,
    recall_per_action,
    to_lists,
)
from mucon.metrics.scores import score
from mucon.segments import Segmentation
from tests.helpers import oracles_metrics as oracle

N = 5


@st.composite
def corpora(draw):
    """Pairs of true labels and as many predicted ones, or none."""
    labels = st.integers(0, N - 1)
    sizes = draw(st.lists(st.integers(0, 20), min_size=1, max_size=4))
    return [
        (
            draw(st.lists(labels, min_size=T, max_size=T)),
            draw(st.one_of(st.just([]), st.lists(labels, min_size=T, max_size=T))),
        )
        for T in sizes
    ]


def of(labels) -> Segmentation:
    return Segmentation.from_frame_labels(np.array(labels, dtype=np.int64))


def sides(pairs):
    return [of(target) for target, _ in pairs], [of(prediction) for _, prediction in pairs]


@settings(max_examples=75, deadline=None)
@given(corpora())
def test_the_matrix_counts_every_frame_of_every_recording(pairs):
    targets, predictions = sides(pairs)
    found = confusion_matrix(targets, predictions, N)
    assert found.toarray().tolist() == oracle.confusion(pairs, N)
    assert frames_per_action(targets, N).tolist() == [sum(t.count(n) for t, _ in pairs) for n in range(N)]


@settings(max_examples=75, deadline=None)
@given(corpora())
def test_recall_and_precision_are_shares_of_true_and_of_predicted_frames(pairs):
    targets, predictions = sides(pairs)
    found = confusion_matrix(targets, predictions, N)
    recall = recall_per_action(found, frames_per_action(targets, N))
    precision = precision_per_action(found)
    for n in range(N):
        right = sum(1 for target, prediction in pairs for a, b in zip(target, prediction, strict=False) if a == b == n)
        true = sum(target.count(n) for target, _ in pairs)
        predicted = sum(prediction.count(n) for _, prediction in pairs)
        assert recall[n] == (right / true if true else None)
        assert precision[n] == (right / predicted if predicted else None)


@settings(max_examples=50, deadline=None)
@given(corpora())
def test_the_diagonal_over_all_true_frames_is_the_mean_over_frames(pairs):
    targets, predictions = sides(pairs)
    true = int(frames_per_action(targets, N).sum())
    right = int(confusion_matrix(targets, predictions, N).trace())
    assert score(targets, predictions).values.get("mof") == (right / true if true else None)


def test_frames_of_an_empty_prediction_are_in_no_column_and_count_against_recall():
    targets = [Segmentation.of([0, 1], [4, 4]), Segmentation.of([1], [6])]
    predictions = [Segmentation.of([0, 1], [5, 3]), Segmentation.of([], [])]
    found = confusion_matrix(targets, predictions, 3)
    assert found.toarray().tolist() == [[4, 0, 0], [1, 3, 0], [0, 0, 0]]
    assert recall_per_action(found, frames_per_action(targets, 3)) == [1.0, 0.3, None]
    assert precision_per_action(found) == [0.8, 1.0, None]


def test_no_recording_gives_a_matrix_of_zeros_and_nothing_defined():
    found = confusion_matrix([], [], 2)
    assert found.toarray().tolist() == [[0, 0], [0, 0]]
    assert recall_per_action(found, frames_per_action([], 2)) == [None, None]


@pytest.mark.parametrize("n_actions", [3, DENSE_UP_TO, DENSE_UP_TO + 1])
def test_a_matrix_in_a_result_is_read_back_whole_or_as_cells(n_actions: int):
    last = n_actions - 1
    targets, predictions = [Segmentation.of([0, last], [4, 4])], [Segmentation.of([0, 1], [3, 5])]
    lists = to_lists(confusion_matrix(targets, predictions, n_actions))
    expected = {(0, 0): 3, (0, 1): 1, (last, 1): 4}
    assert cells_of(lists, n_actions) == expected
    dense = confusion_matrix(targets, predictions, n_actions).toarray().tolist()
    assert cells_of(dense, n_actions) == expected
    cells = [[*cell, frames] for cell, frames in expected.items()]
    assert lists == (dense if n_actions <= DENSE_UP_TO else cells)

"""Metrics written from their definitions, frame by frame and segment by segment. Slow and obvious."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def segments_of(labels: Sequence[int], ignored: Collection[int] = ()) -> list[tuple[int, set[int]]]:
    """Maximal runs as (action, set of frames)."""
    found: list[tuple[int, set[int]]] = []
    for t, label in enumerate(labels):
        if t and labels[t - 1] == label:
            found[-1][1].add(t)
        else:
            found.append((int(label), {t}))
    return [segment for segment in found if segment[0] not in ignored]


def mof(target, prediction, ignored=()):
    counted = [t for t in range(len(target)) if target[t] not in ignored]
    return sum(target[t] == prediction[t] for t in counted) / len(counted) if counted else None


def f1_counts(target, prediction, threshold, ignored=()):
    true, predicted = segments_of(target, ignored), segments_of(prediction, ignored)
    found: set[int] = set()
    right = 0
    for action, frames in predicted:
        best, best_overlap = None, 0.0
        for index, (true_action, true_frames) in enumerate(true):
            overlap = len(frames & true_frames) / len(frames | true_frames) if true_action == action else 0.0
            if overlap > best_overlap:
                best, best_overlap = index, overlap
        if best is not None and best_overlap >= threshold and best not in found:
            found.add(best)
            right += 1
    return right, len(predicted) - right, len(true) - right


def best_of_class(target, prediction, ignored=(), over="union"):
    true, predicted = segments_of(target, ignored), segments_of(prediction, ignored)
    if not true:
        return None
    total = 0.0
    for action, frames in true:
        shares = [
            len(frames & other) / len(frames | other if over == "union" else other)
            for other_action, other in predicted
            if other_action == action
        ]
        total += max(shares, default=0.0)
    return total / len(true)


def by_class(target, prediction, ignored=(), over="union"):
    shares = []
    for action in set(target) - set(ignored):
        true, found = ({t for t, label in enumerate(labels) if label == action} for labels in (target, prediction))
        whole = true | found if over == "union" else found
        shares.append(len(true & found) / len(whole) if whole else 0.0)
    return mean(shares) if shares else None


def edit_distance(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i == 0 or j == 0:
                table[i][j] = i + j
            else:
                table[i][j] = min(
                    table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + int(a[i - 1] != b[j - 1])
                )
    return table[len(a)][len(b)]


def edit(target, prediction, ignored=()):
    a = [action for action, _ in segments_of(target, ignored)]
    b = [action for action, _ in segments_of(prediction, ignored)]
    return 1 - edit_distance(a, b) / max(len(a), len(b)) if a or b else None


def confusion(pairs, n_actions):
    """Counts frame by frame; a prediction without any frame is passed as an empty sequence."""
    table = [[0] * n_actions for _ in range(n_actions)]
    for target, prediction in pairs:
        for t in range(len(prediction)):
            table[target[t]][prediction[t]] += 1
    return table


def boundaries_of(labels):
    return [t for t in range(1, len(labels)) if labels[t] != labels[t - 1]]


def nearest_boundary_errors(target, prediction):
    predicted = boundaries_of(prediction)
    if not predicted or not boundaries_of(target):
        return None
    return [min(abs(t - u) for u in predicted) for t in boundaries_of(target)]


def frame_sets(transcript, lengths):
    """The frames of each segment, one set each."""
    sets, start = [], 0
    for length in lengths:
        sets.append(set(range(start, start + length)))
        start += length
    return sets


def by_index(transcript, true_lengths, predicted_lengths, ignored=(), over="union"):
    true, predicted = frame_sets(transcript, true_lengths), frame_sets(transcript, predicted_lengths)
    shares = []
    for action, a, b in zip(transcript, true, predicted, strict=True):
        if action not in ignored:
            whole = len(a | b if over == "union" else b)
            shares.append(len(a & b) / whole if whole else 0.0)
    return sum(shares) / len(shares) if shares else None


def boundary_errors_by_index(true_lengths, predicted_lengths):
    return [abs(sum(true_lengths[:m]) - sum(predicted_lengths[:m])) for m in range(1, len(true_lengths))]


def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

"""Masks, losses and layers written from their equations, in float64. Slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


def template(shape: str, J: int) -> list[float]:
    """Figure 4's shapes with the published program's values, sample by sample."""
    values = []
    for j in range(J):
        if shape == "box":
            values.append(1.0)
        elif shape == "bell":
            values.append(math.exp(-((j - (J - 1) / 2) ** 2) / (2 * (J / 5) ** 2)))
        elif j < J / 4:
            values.append(min(1.0, 0.5 + j * 2 / J))
        elif j >= 3 * J / 4:
            values.append(1.0 - (j - 3 * J / 4) * 2 / J)
        else:
            values.append(1.0)
    return values


def spans(lengths: Sequence[float], overlap: float, rule: str) -> list[tuple[float, float]]:
    """Start and length of each segment's mask (equation (5) and the overlap)."""
    found, start = [], 0.0
    for length in lengths:
        grown = length * (1 + 2 * overlap)
        found.append((start - (overlap * length if rule == "symmetric" else overlap / 2 * grown), grown))
        start += length
    return found


def masks(
    lengths: Sequence[float],
    T: int,
    *,
    shape: str = "box",
    overlap: float = 0.0,
    rule: str = "symmetric",
    corner_aligned: bool = False,
    J: int = 100,
) -> np.ndarray:
    """Equation (9): the template through triangular kernels at each frame's place, `[M, T]`."""
    U = template(shape, J)
    result = np.zeros((len(lengths), T))
    for m, (start, length) in enumerate(spans(lengths, overlap, rule)):
        for t in range(T):
            if corner_aligned:
                place = (t * T / (T - 1) if T > 1 else 0.0) - start
                index = place / length * (J - 1)
            else:
                index = (t + 0.5 - start) / length * J - 0.5
            for j in range(max(0, math.floor(index) - 1), min(J, math.floor(index) + 3)):
                result[m, t] += U[j] * max(0.0, 1 - abs(index - j))
    return result


def mask_integral(start: float, length: float, T: int, shape: str, J: int = 100) -> float:
    """The integral over [0, T] of the template stretched to [start, start + length] with centred ramps, exactly."""
    knots = [start + (j + 0.5) * length / J for j in range(-1, J + 1)]
    heights = [0.0, *template(shape, J), 0.0]
    inside = sorted({0.0, float(T), *(k for k in knots if 0 < k < T)})
    values = np.interp(inside, knots, heights, left=0.0, right=0.0)
    return float(sum((b - a) * (v + w) / 2 for a, b, v, w in zip(inside, inside[1:], values, values[1:], strict=False)))


def softmax(values: Sequence[float]) -> list[float]:
    largest = max(values)
    powers = [math.exp(value - largest) for value in values]
    return [power / sum(powers) for power in powers]


def segment_consistency(logits, masks, transcript, divisors, reduction="mean") -> float:
    """Equations (1) to (3) over frames: average the logits under each mask, then cross-entropy."""
    costs = []
    for m, action in enumerate(transcript):
        averaged = [
            sum(masks[m][t] * logits[t][n] for t in range(len(logits))) / divisors[m] for n in range(len(logits[0]))
        ]
        costs.append(-math.log(softmax(averaged)[action]))
    return sum(costs) / (len(costs) if reduction == "mean" else 1)


def frame_consistency(logits, masks, transcript) -> float:
    """Masked cross-entropy of every frame, over T."""
    total = 0.0
    for m, action in enumerate(transcript):
        for t, row in enumerate(logits):
            total += masks[m][t] * -math.log(softmax(row)[action])
    return total / len(logits)


def smoothing(logits, tau: float, rule: str) -> float:
    """Equations (12) and (13) over (T - 1) N terms."""
    logs = [[math.log(p) for p in softmax(row)] for row in logits]
    terms = [abs(b - a) for before, after in pairwise(logs) for a, b in zip(before, after, strict=True)]
    if not terms:
        return 0.0
    if rule == "per_term":
        return sum(min(tau, term) ** 2 for term in terms) / len(terms)
    return min(tau**2, sum(term**2 for term in terms) / len(terms))


def length_regulariser(log_lengths: Sequence[float], width: float) -> float:
    """Equation (11)."""
    return sum(max(0.0, -length - width) + max(0.0, length - width) for length in log_lengths)


def residual(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, keep: Tensor | None, dilation: int) -> Tensor:
    """The layer on `[T, C]` with torch's own convolutions; `w1` is `[tap, in, out]`, `w2` `[in, out]`."""
    column = x.t()[None]
    hidden = functional.conv1d(column, w1.permute(2, 1, 0), b1, padding=dilation, dilation=dilation)
    out = functional.conv1d(functional.relu(hidden), w2.t()[:, :, None], b2)[0].t()
    return x + (out if keep is None else out * keep)


def recurrence(keys, values, symbols, hidden, cell, query, query_bias, score, w_input, w_hidden, bias):
    """Attention and LSTM cell, step by step, with torch's own cell (whose second bias is zero here)."""
    entries, states = [], []
    zero = torch.zeros_like(bias)
    for symbol in symbols:
        energy = torch.tanh(keys + (query @ hidden + query_bias)) @ score
        entry = functional.relu(symbol + torch.softmax(energy, 0) @ values)
        hidden, cell = torch.func.functional_call(
            nn.LSTMCell(len(entry), len(hidden), dtype=entry.dtype),
            {"weight_ih": w_input, "weight_hh": w_hidden, "bias_ih": bias, "bias_hh": zero},
            (entry[None], (hidden[None], cell[None])),
        )
        hidden, cell = hidden[0], cell[0]
        entries.append(entry)
        states.append(hidden)
    return torch.stack(entries), torch.stack(states), cell

"""CDFL: candidates, and the loss against brute force over all paths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mucon.methods.cdfl.loss import Discriminative, candidates, loss_terms

N = 4
KINDS: tuple[Discriminative, ...] = ("none", "released", "better", "all")


def log_probs(n_frames: int, seed: int = 0) -> Tensor:
    values = torch.randn(n_frames, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.log_softmax(values, dim=1)


def terms(values: Tensor, transcript: list[int], lengths: list[int], kind: Discriminative = "none") -> list[Tensor]:
    places, exist = (torch.from_numpy(array) for array in candidates(np.array(lengths)))
    return list(loss_terms(values, torch.tensor(transcript), places, exist, kind))


def soft_minimum(energies: list[float]) -> float:
    least = min(energies)
    return least - math.log(sum(math.exp(least - energy) for energy in energies))


def brute_force(values: Tensor, transcript: list[int], lengths: list[int], kind: Discriminative) -> list[float]:
    """Both terms over all paths, and over all their labels, from the definition."""
    T, M, b = sum(lengths), len(lengths), np.cumsum(lengths)
    inner = [
        sorted({min(max(end, m - 1), T - 1 - (M - m)) for end in (b[m - 1] - 6, b[m - 1] - 1, b[m - 1] + 4)})
        for m in range(1, M)
    ]
    valid, rivals = [], []
    for ends in itertools.product([-1], *inner, [T - 1]):
        if any(s >= t for s, t in itertools.pairwise(ends)):
            continue
        energies = [-values[s + 1 : t + 1].sum(dim=0) for s, t in itertools.pairwise(ends)]
        own = [float(energy[a]) for energy, a in zip(energies, transcript, strict=True)]
        valid.append(sum(own))
        labels = []
        for energy, true in zip(energies, own, strict=True):
            rival = energy.tolist()
            if kind == "released":
                rival = [one if one < true else 0.0 for one in rival]
            elif kind == "better":
                rival = [one for one in rival if one <= true]
            labels.append(rival)
        rivals += [sum(path) for path in itertools.product(*labels)]
    return [soft_minimum(valid), 0.0 if kind == "none" else soft_minimum(rivals)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[30], [14, 20], [20, 3, 17], [2, 2, 2], [1, 1, 1], [12, 1, 1, 13]])
def test_both_terms_are_those_of_brute_force_over_all_paths(lengths: list[int], kind: Discriminative):
    transcript = [0, 2, 2, 1][: len(lengths)]
    values = log_probs(sum(lengths))
    found = [float(term) for term in terms(values, transcript, lengths, kind)]
    assert found == pytest.approx(brute_force(values, transcript, lengths, kind), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind: Discriminative):
    transcript, lengths = [0, 2, 1], [6, 4, 9]
    logits = log_probs(19, seed=2).requires_grad_()

    def loss(values: Tensor) -> Tensor:
        valid, rivals = terms(torch.log_softmax(values, dim=1), transcript, lengths, kind)
        return valid - rivals

    assert torch.autograd.gradcheck(loss, logits)


def gradient(term: Tensor, logits: Tensor) -> float:
    (found,) = torch.autograd.grad(term, logits, retain_graph=True)
    return float(found.abs().max())


def test_the_released_rivals_have_no_gradient_while_the_network_is_undecided_and_the_others_do():
    transcript, lengths = [0, 2, 1, 3], [90, 120, 60, 100]
    logits = log_probs(sum(lengths), seed=3).requires_grad_()
    values = torch.log_softmax(logits, dim=1)
    sizes = {}
    for kind in KINDS[1:]:
        valid, rivals = terms(values, transcript, lengths, kind)
        sizes[kind] = gradient(rivals, logits) / gradient(valid, logits)
    assert sizes["released"] < 1e-12
    assert min(sizes["better"], sizes["all"]) > 0.1


def test_the_released_rivals_have_a_gradient_where_a_better_label_has_a_small_energy():
    logits = torch.zeros(60, N, dtype=torch.float64)
    logits[:30, 0], logits[:30, 3], logits[30:, 2] = 6.0, 7.0, 9.0
    logits.requires_grad_()
    valid, rivals = terms(torch.log_softmax(logits, dim=1), [0, 2], [30, 30], "released")
    assert gradient(rivals, logits) > 1e-6 * gradient(valid, logits)


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_the_alignment_is_always_a_path_and_every_segment_keeps_a_frame(lengths: list[int]):
    M, T = len(lengths), sum(lengths)
    places, exist = candidates(np.array(lengths))
    own = np.concatenate(([0], np.cumsum(lengths))) - 1
    for m, end in enumerate(own.tolist()):
        chosen = places[m][exist[m]].tolist()
        assert end in chosen
        assert sorted(set(chosen)) == chosen
        assert m - 1 <= chosen[0]
        assert chosen[-1] <= T - 1 - (M - m)
    assert (places[0][exist[0]].tolist(), places[M][exist[M]].tolist()) == ([-1], [T - 1])


def test_candidates_are_those_of_the_released_program_where_segments_are_long():
    places, exist = candidates(np.array([30, 40, 50]))
    assert [row[chosen].tolist() for row, chosen in zip(places, exist, strict=True)] == [
        [-1], list(range(30 - 5 - 1, 30 + 5, 5)), list(range(70 - 5 - 1, 70 + 5, 5)), [119],
    ]  # fmt: skip
    places, exist = candidates(np.array([30, 40, 50]), window=0)
    assert [row[chosen].tolist() for row, chosen in zip(places, exist, strict=True)] == [[-1], [29], [69], [119]]


def test_a_window_of_no_frames_is_the_likelihood_of_the_alignment():
    values = log_probs(9)
    places, exist = (torch.from_numpy(array) for array in candidates(np.array([4, 5]), window=0))
    valid, _ = loss_terms(values, torch.tensor([0, 3]), places, exist, "none")
    assert float(valid) == pytest.approx(-float(values[:4, 0].sum() + values[4:, 3].sum()))

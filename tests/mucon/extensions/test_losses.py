"""Losses beyond the paper, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch

from mucon.extensions.losses import class_means, presence_loss, prototype_loss

TRANSCRIPT = torch.tensor([2, 0, 2])


def test_the_presence_of_an_action_is_its_highest_logits_over_time():
    logits = torch.tensor([[9.0, -1.0, 0.0], [1.0, -3.0, 2.0], [-5.0, -2.0, 4.0], [0.0, -8.0, 1.0]])
    highest = [(9 + 1) / 2, (-1 - 2) / 2, (4 + 2) / 2]
    present = [1, 0, 1]
    losses = [math.log1p(math.exp(-x if here else x)) for x, here in zip(highest, present, strict=True)]
    assert presence_loss(logits, TRANSCRIPT, top=0.5).item() == pytest.approx(sum(losses) / 3)


def test_at_least_one_latent_frame_counts():
    logits = torch.tensor([[3.0, -3.0]])
    assert presence_loss(logits, torch.tensor([0]), top=0.01).item() == pytest.approx(math.log1p(math.exp(-3)))


def test_the_mean_of_an_action_is_over_all_its_segments_and_weighted_by_the_masks():
    latent = torch.tensor([[1.0, 0.0], [0.0, 1.0], [4.0, 4.0]])
    masks = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    means, present = class_means(latent, masks, TRANSCRIPT, 4)
    assert present.tolist() == [True, False, True, False]
    torch.testing.assert_close(means[2], (1 * latent[0] + 3 * latent[2]) / 4)
    torch.testing.assert_close(means[0], latent[1])


def test_each_action_is_told_from_the_known_prototypes_by_the_cosine():
    means = torch.tensor([[2.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 5.0]], requires_grad=True)
    prototypes = torch.tensor([[1.0, 0.0], [7.0, 7.0], [0.0, 3.0], [1.0, 1.0]], requires_grad=True)
    present, known = torch.tensor([True, False, True, True]), torch.tensor([True, False, True, False])
    loss = prototype_loss(means, present, prototypes, known, temperature=0.5)
    first = math.log(1 + math.exp((0 - 1) / 0.5))
    second = math.log(2)  # as far from either prototype
    assert loss.item() == pytest.approx((first + second) / 2)
    loss.backward()
    assert prototypes.grad is None
    assert means.grad[0].abs().sum() > 0
    assert means.grad[[1, 3]].abs().sum() == 0


def test_without_a_known_prototype_there_is_nothing_to_lose():
    means = torch.ones(2, 3, requires_grad=True)
    loss = prototype_loss(means, torch.tensor([True, True]), torch.zeros(2, 3), torch.tensor([False, False]))
    assert loss.item() == 0
    loss.backward()
    assert means.grad.abs().sum() == 0

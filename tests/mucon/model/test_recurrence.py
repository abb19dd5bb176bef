"""The decoder's recurrence and its hand-written gradient against torch's LSTM cell under autograd."""

from __future__ import annotations

import pytest
import torch

from mucon.model.recurrence import DecoderWeights, decode_given
from tests.helpers import oracles_core as oracles

SIZES = [(1, 1, 2), (1, 3, 2), (4, 1, 3), (6, 5, 3)]
"""Steps, latent frames, width."""


def inputs(steps: int, n_latent: int, width: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * steps + n_latent)
    shapes = (
        (n_latent, width),
        (n_latent, width),
        (steps, width),
        (width,),
        (width,),
        (width, width),
        (width,),
        (width,),
        (4 * width, width),
        (4 * width, width),
        (4 * width,),
    )
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def ours(given: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return decode_given(*given[:5], DecoderWeights(*given[5:]))


@pytest.mark.parametrize(("steps", "n_latent", "width"), SIZES)
def test_the_steps_are_those_of_torchs_cell_with_attention(steps, n_latent, width):
    given = inputs(steps, n_latent, width)
    for a, b in zip(ours(given), oracles.recurrence(*given), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("steps", "n_latent", "width"), SIZES)
def test_the_gradient_is_that_of_autograd_through_every_step(steps, n_latent, width):
    given = inputs(steps, n_latent, width)
    cotangents = [torch.randn(steps, width, dtype=torch.float64) for _ in range(2)]
    gradients = [
        torch.autograd.grad(function(given)[:2], given, cotangents)
        for function in (ours, lambda x: oracles.recurrence(*x))
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("which", [0, 1])
def test_one_output_alone_has_its_own_gradient(which):
    given = inputs(3, 4, 2)
    gradients = [
        torch.autograd.grad(function(given)[which].sin().sum(), given, allow_unused=True, materialize_grads=True)
        for function in (ours, lambda x: oracles.recurrence(*x))
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("steps", "n_latent", "width"), SIZES[:3])
def test_the_gradient_is_that_of_finite_differences(steps, n_latent, width):
    given = inputs(steps, n_latent, width)
    assert torch.autograd.gradcheck(lambda *x: [y.cos().sum() for y in ours(list(x))[:2]], given)


def test_no_gradient_runs_through_the_last_cell_state():
    assert not ours(inputs(2, 3, 2))[2].requires_grad


def test_two_calls_of_one_step_equal_one_call_of_two_steps():
    given = inputs(2, 3, 4)
    entries, states, cell = ours(given)
    first = decode_given(*given[:2], given[2][:1], *given[3:5], DecoderWeights(*given[5:]))
    second = decode_given(*given[:2], given[2][1:], first[1][0], first[2], DecoderWeights(*given[5:]))
    torch.testing.assert_close(torch.cat((first[0], second[0])), entries)
    torch.testing.assert_close(torch.cat((first[1], second[1])), states)
    torch.testing.assert_close(second[2], cell)

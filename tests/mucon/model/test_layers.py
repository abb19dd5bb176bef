"""Layers on rows of frames against torch's own convolutions and norms."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mucon.model.layers import (
    DualDilatedLayer,
    ResidualLayer,
    _Convolution,
    _Residual,
    dropout,
    dropout_mask,
    group_norm_rows,
    pool_pairs,
)
from tests.helpers import oracles_core as oracles

SIZES = [(1, 1), (1, 4), (2, 2), (3, 1), (5, 4), (5, 8), (9, 2)]
"""Frames and dilation: a single frame, fewer frames than the dilation reaches, as many, more."""


def weights(T: int, dilation: int, channels: int = 3) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(10 * T + dilation)
    shapes = ((T, channels), (3, channels, channels), (channels,), (channels, channels), (channels,))
    made = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    keep = (torch.rand(T, channels, generator=generator) > 0.3).double() / 0.7
    return (*(x.requires_grad_() for x in made), keep)


@pytest.mark.parametrize(("T", "dilation"), SIZES)
@pytest.mark.parametrize("with_dropout", [False, True])
def test_the_residual_layer_is_torchs_dilated_convolution_and_its_gradient(T, dilation, with_dropout):
    *inputs, keep = weights(T, dilation)
    mask = keep if with_dropout else None
    ours = _Residual.apply(*inputs, mask, dilation)
    theirs = oracles.residual(*inputs, mask, dilation)
    torch.testing.assert_close(ours, theirs)
    cotangent = torch.randn_like(ours)
    gradients = [torch.autograd.grad(y, inputs, cotangent) for y in (ours, theirs)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("T", "dilation"), SIZES)
def test_the_residual_layers_gradient_is_that_of_finite_differences(T, dilation):
    *inputs, keep = weights(T, dilation)
    assert torch.autograd.gradcheck(lambda *x: _Residual.apply(*x, keep, dilation).cos().sum(), inputs)


def test_a_residual_layer_does_not_change_its_input_and_drops_nothing_in_evaluation():
    layer = ResidualLayer(4, 2, dropout=0.5).eval()
    x = torch.randn(6, 4)
    before = x.clone()
    assert torch.equal(layer(x), layer(x))
    assert torch.equal(x, before)


def test_a_residual_layer_starts_as_torchs_convolutions_do():
    layer = ResidualLayer(256, 1, dropout=0.0)
    dilated, output = nn.Conv1d(256, 256, 3), nn.Conv1d(256, 256, 1)
    for ours, theirs in (
        (layer.dilated_weight, dilated.weight),
        (layer.dilated_bias, dilated.bias),
        (layer.output_weight, output.weight),
        (layer.output_bias, output.bias),
    ):
        assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.05)
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.2)


@pytest.mark.parametrize("p", [0.01, 0.25, 0.5, 0.9, 0.9999999])
def test_dropout_keeps_the_mean(p):
    torch.manual_seed(0)
    mask = dropout_mask(torch.zeros(501, 999), p)
    assert set(mask.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - p)).item()}
    share = (mask == 0).float().mean().item()
    assert share == pytest.approx(p, abs=3 * (p * (1 - p) / mask.numel()) ** 0.5 + 2 / 65536)


def test_dropout_depends_on_the_generator_alone():
    masks = []
    for _ in range(2):
        torch.manual_seed(3)
        masks.append(dropout_mask(torch.zeros(7, 5), 0.5))
    assert torch.equal(*masks)
    assert not torch.equal(masks[0], dropout_mask(torch.zeros(7, 5), 0.5))


def test_neighbouring_values_are_dropped_independently():
    torch.manual_seed(1)
    dropped = (dropout_mask(torch.zeros(100_000, 4), 0.25) == 0).double()
    pairs = torch.corrcoef(dropped.t()) - torch.eye(4)
    assert pairs.abs().max() < 0.02


def test_dropout_does_nothing_in_evaluation_and_at_probability_zero():
    x = torch.randn(4, 3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_the_gradient_of_dropout_is_its_mask():
    x = torch.randn(40, 3, requires_grad=True)
    torch.manual_seed(5)
    y = dropout(x, 0.5, training=True)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(y == 0, 0.0, 2.0))


@pytest.mark.parametrize("T", [1, 2, 3, 8, 9])
def test_pooling_takes_the_larger_of_two_rows_and_drops_an_odd_last_one(T):
    x = torch.randn(T, 3)
    theirs = nn.functional.max_pool1d(x.t()[None], 2)[0].t() if T > 1 else x
    assert torch.equal(pool_pairs(x), theirs)


@pytest.mark.parametrize(("T", "channels", "groups"), [(1, 8, 4), (7, 8, 4), (7, 8, 8), (2, 6, 1)])
def test_the_group_norm_of_rows_is_torchs(T, channels, groups):
    norm = nn.GroupNorm(groups, channels).double()
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2, channels))
        norm.bias.copy_(torch.linspace(-1, 1, channels))
    x = torch.randn(T, channels, dtype=torch.float64)
    torch.testing.assert_close(group_norm_rows(x, norm), norm(x.t()[None])[0].t())


def test_a_group_of_a_single_value_becomes_the_bias():
    norm = nn.GroupNorm(4, 4)
    with torch.no_grad():
        norm.bias.copy_(torch.arange(4.0))
    torch.testing.assert_close(group_norm_rows(torch.randn(1, 4), norm), torch.arange(4.0)[None], rtol=0, atol=1e-4)


def convolved(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dilation: int) -> torch.Tensor:
    return nn.functional.conv1d(x.t()[None], weight.permute(2, 1, 0), bias, padding=dilation, dilation=dilation)[0].t()


@pytest.mark.parametrize(("T", "dilation"), SIZES)
def test_the_convolution_is_torchs_and_so_is_its_gradient(T, dilation):
    inputs = weights(T, dilation)[:3]
    ours, theirs = _Convolution.apply(*inputs, dilation), convolved(*inputs, dilation)
    torch.testing.assert_close(ours, theirs)
    cotangent = torch.randn_like(ours)
    for a, b in zip(*[torch.autograd.grad(y, inputs, cotangent) for y in (ours, theirs)], strict=True):
        torch.testing.assert_close(a, b)
    assert torch.autograd.gradcheck(lambda *x: _Convolution.apply(*x, dilation).cos().sum(), inputs)


def dual(dilations: tuple[int, int], p: float = 0.0) -> DualDilatedLayer:
    torch.manual_seed(sum(dilations))
    return DualDilatedLayer(3, dilations, p).double()


@pytest.mark.parametrize("dilations", [(1, 4), (4, 1), (2, 2)])
@pytest.mark.parametrize("T", [1, 2, 5, 9])
def test_the_dual_dilated_layer_is_two_convolutions_and_their_fusion(T, dilations):
    layer, x = dual(dilations).eval(), weights(T, 1)[0]

    def by_torch(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        w1, w2, b1, b2, fusion, bias = parameters
        both = torch.cat((convolved(x, w1, b1, dilations[0]), convolved(x, w2, b2, dilations[1])), dim=1)
        fused = nn.functional.conv1d(both.t()[None], fusion.t()[:, :, None], bias)[0].t()
        return x + nn.functional.relu(fused)

    parameters = [*layer.dilated_weights, *layer.dilated_biases, layer.fusion_weight, layer.fusion_bias]
    ours, theirs = layer(x), by_torch(x, *parameters)
    torch.testing.assert_close(ours, theirs)
    cotangent = torch.randn_like(ours)
    for a, b in zip(*[torch.autograd.grad(y, [x, *parameters], cotangent) for y in (ours, theirs)], strict=True):
        torch.testing.assert_close(a, b)


def test_the_gradient_of_the_dual_dilated_layer_is_that_of_finite_differences():
    layer, x = dual((1, 3), p=0.5).train(), weights(6, 1)[0]
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def run(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(4)  # the same values are dropped each time
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,)).cos().sum()

    assert torch.autograd.gradcheck(run, (x, *parameters))


def test_a_dual_dilated_layer_starts_as_torchs_convolutions_do_and_leaves_its_input_alone():
    layer = DualDilatedLayer(128, (1, 4), dropout=0.5).eval()
    for ours, theirs in (
        *((weight, nn.Conv1d(128, 128, 3).weight) for weight in layer.dilated_weights),
        *((bias, nn.Conv1d(128, 128, 3).bias) for bias in layer.dilated_biases),
        (layer.fusion_weight, nn.Conv1d(256, 128, 1).weight),
        (layer.fusion_bias, nn.Conv1d(256, 128, 1).bias),
    ):
        assert ours.numel() == theirs.numel()
        assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.1)
    x = torch.randn(9, 128)
    before = x.clone()
    assert torch.equal(layer(x), layer(x))
    assert torch.equal(x, before)
    layer.train()
    assert not torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("layer", [ResidualLayer(8, 2, 0.0), DualDilatedLayer(8, (1, 4), 0.0)])
def test_a_layer_computes_in_the_precision_of_its_input_with_gradients_in_that_of_its_weights(layer):
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    exact, rough = layer(x), layer(x.to(torch.bfloat16))
    assert (exact.dtype, rough.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.05)
    rough.float().sum().backward()
    assert {p.grad.dtype for p in layer.parameters()} == {torch.float32}

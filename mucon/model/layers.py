"""The layers of the backbone with hand-written gradients, and pooling, all on `[T, C]` tensors.

Frames are rows, so every convolution is a matrix product without transposition, and a dilated convolution of width 3
is three products, two of them of shifted rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def _dilated(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """Dilated convolution of width 3 with zero padding: `[T, C]` x `[3, C, C']` -> `[T, C']`."""
    y = torch.addmm(bias, x, weight[1])
    if dilation < len(x):
        y[dilation:].addmm_(x[:-dilation], weight[0])
        y[:-dilation].addmm_(x[dilation:], weight[2])
    return y


def _dilated_gradients(
    x: Tensor, weight: Tensor, grad: Tensor, dilation: int, onto: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of `_dilated` with respect to its input, added to `onto` if given, and to its weight."""
    grad_x = grad @ weight[1].t() if onto is None else torch.addmm(onto, grad, weight[1].t())
    grad_weight = torch.zeros_like(weight) if dilation >= len(x) else torch.empty_like(weight)
    torch.mm(x.t(), grad, out=grad_weight[1])
    if dilation < len(x):
        grad_x[:-dilation].addmm_(grad[dilation:], weight[0].t())
        grad_x[dilation:].addmm_(grad[:-dilation], weight[2].t())
        torch.mm(x[:-dilation].t(), grad[dilation:], out=grad_weight[0])
        torch.mm(x[dilation:].t(), grad[:-dilation], out=grad_weight[2])
    return grad_x, grad_weight


class _Residual(torch.autograd.Function):
    """x + keep * (relu(dilated(x)) @ W2 + b2) as one node of the graph instead of ten."""

    apply: Callable[..., Tensor]

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, keep: Tensor | None, dilation: int
    ) -> Tensor:
        hidden = _dilated(x, w1, b1, dilation).relu_()
        y = torch.addmm(b2, hidden, w2)
        if keep is not None:
            y.mul_(keep)
        y.add_(x)
        ctx.save_for_backward(x, w1, w2, hidden, keep)
        ctx.dilation = dilation
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w1, w2, hidden, keep = ctx.saved_tensors
        grad_y = grad if keep is None else grad * keep
        grad_hidden = torch.ops.aten.threshold_backward(grad_y @ w2.t(), hidden, 0)
        grad_x, grad_w1 = _dilated_gradients(x, w1, grad_hidden, ctx.dilation, grad)
        return grad_x, grad_w1, grad_hidden.sum(0), hidden.t() @ grad_y, grad_y.sum(0), None, None


class _Convolution(torch.autograd.Function):
    """`_dilated` as one node of the graph."""

    apply: Callable[..., Tensor]

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.dilation = dilation
        return _dilated(x, weight, bias, dilation)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x, grad_weight = _dilated_gradients(x, weight, grad, ctx.dilation, None)
        return grad_x, grad_weight, grad.sum(0), None


class ResidualLayer(nn.Module):
    """`x + dropout(conv1x1(relu(dilated_conv3(x))))` on `[T, C]`, computed in the precision of x.

    Weights are stored as `[tap, in, out]` and `[in, out]`; they are initialised like torch's Conv1d.

    Source: paper, section 4.1, from MS-TCN.
    """

    def __init__(self, channels: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.dropout = dropout
        self.dilated_weight = nn.Parameter(torch.empty(3, channels, channels))
        self.dilated_bias = nn.Parameter(torch.empty(channels))
        self.output_weight = nn.Parameter(torch.empty(channels, channels))
        self.output_bias = nn.Parameter(torch.empty(channels))
        _initialise(self.dilated_weight, self.dilated_bias, fan_in=3 * channels)
        _initialise(self.output_weight, self.output_bias, fan_in=channels)

    def forward(self, x: Tensor) -> Tensor:
        """`[T, C]` -> `[T, C]`."""
        return _Residual.apply(
            x,
            *(w.to(x.dtype) for w in (self.dilated_weight, self.dilated_bias, self.output_weight, self.output_bias)),
            dropout_mask(x, self.dropout) if self.training and self.dropout > 0 else None,
            self.dilation,
        )


class DualDilatedLayer(nn.Module):
    """`x + dropout(relu(conv1x1([dilated_conv3(x), dilated_conv3'(x)])))` on `[T, C]`, with two dilations.

    Weights are stored as `[tap, in, out]` and `[2 in, out]`; they are initialised like torch's Conv1d.

    Source: the layer of the first stage of MS-TCN++ (Li et al., IEEE TPAMI 2020).
    """

    def __init__(self, channels: int, dilations: tuple[int, int], dropout: float) -> None:
        super().__init__()
        self.dilations = dilations
        self.dropout = dropout
        self.dilated_weights = nn.ParameterList(nn.Parameter(torch.empty(3, channels, channels)) for _ in dilations)
        self.dilated_biases = nn.ParameterList(nn.Parameter(torch.empty(channels)) for _ in dilations)
        self.fusion_weight = nn.Parameter(torch.empty(2 * channels, channels))
        self.fusion_bias = nn.Parameter(torch.empty(channels))
        for weight, bias in zip(self.dilated_weights, self.dilated_biases, strict=True):
            _initialise(weight, bias, fan_in=3 * channels)
        _initialise(self.fusion_weight, self.fusion_bias, fan_in=2 * channels)

    def forward(self, x: Tensor) -> Tensor:
        """`[T, C]` -> `[T, C]`."""
        both = [
            _Convolution.apply(x, weight.to(x.dtype), bias.to(x.dtype), dilation)
            for weight, bias, dilation in zip(self.dilated_weights, self.dilated_biases, self.dilations, strict=True)
        ]
        fused = torch.addmm(self.fusion_bias.to(x.dtype), torch.cat(both, dim=1), self.fusion_weight.to(x.dtype))
        return x + dropout(torch.relu(fused), self.dropout, self.training)


def _initialise(weight: Tensor, bias: Tensor, fan_in: int) -> None:
    for parameter in (weight, bias):
        nn.init.uniform_(parameter, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """Applies the layer in the precision of x."""
    return nn.functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def dropout_mask(x: Tensor, p: float) -> Tensor:
    """Zeros with probability p, 1 / (1 - p) otherwise, in the shape of x.

    Each 64-bit random number yields four of 16 bits, so p is rounded to a multiple of 1 / 65536 below 1 (0.25 is
    exact). On a CPU this takes a tenth of the time of `bernoulli_`.
    """
    n = x.numel()
    bits = torch.empty(-(-n // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    threshold = min(round(p * 65536) - 32768, 32767)
    keep = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.ge(bits.view(torch.int16)[:n].view(x.shape), threshold, out=keep)
    return keep.mul_(1 / (1 - p))


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout with `dropout_mask`."""
    return x * dropout_mask(x.detach(), p) if training and p > 0 else x


def pool_pairs(x: Tensor) -> Tensor:
    """Maximum of pairs of rows, `[T, C]` -> `[T // 2, C]`; an odd last row is dropped, a single row is kept.

    >>> pool_pairs(torch.tensor([[1.0], [3.0], [2.0]])).tolist()
    [[3.0]]
    """
    half = len(x) // 2
    if half == 0:
        return x
    return torch.maximum(x[0 : 2 * half : 2], x[1 : 2 * half : 2])


def group_norm_rows(x: Tensor, norm: nn.GroupNorm) -> Tensor:
    """Group norm of one video `[T', C]`, with statistics over a group's channels and all rows.

    A group of a single value becomes the bias (`torch.nn.functional.group_norm` raises an error).
    """
    return torch.group_norm(x.t()[None], norm.num_groups, norm.weight, norm.bias, norm.eps)[0].t()

"""The decoder's recurrence over given symbols, with a hand-written gradient.

Autograd would create about 25 nodes per step and accumulate the gradient of every weight step by step. Here a step
costs a dozen small operations, and the gradient of each weight is one product after the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class DecoderWeights(NamedTuple):
    """Weights of attention and cell; `query` `[H, H]`, `score` `[H]`, `input` and `hidden` `[4H, H]` (i, f, g, o)."""

    query: Tensor
    query_bias: Tensor
    score: Tensor
    input: Tensor
    hidden: Tensor
    bias: Tensor


def decode_given(
    keys: Tensor, values: Tensor, symbols: Tensor, hidden: Tensor, cell: Tensor, weights: DecoderWeights
) -> tuple[Tensor, Tensor, Tensor]:
    """Input vectors and hidden states `[K, H]` of K steps of attention and LSTM cell, and the last cell state `[H]`.

    The cell state serves to continue the recurrence; it has no gradient.

    Args:
        keys: `[T', H]`, the encoded video mapped to attention keys.
        values: `[T', H]`, the encoded video mapped to the decoder's input.
        symbols: `[K, H]`, embedded symbols mapped to the decoder's input.
        hidden: `[H]`, initial hidden state.
        cell: `[H]`, initial cell state.
        weights: weights of attention and cell.

    Source: paper, section 4.3: entry = relu(symbol + softmax(v . tanh(keys + W h)) values); (h, c) = LSTM(entry, h, c).
    """
    return _Recurrence.apply(keys, values, symbols, hidden, cell, *weights)


class _Recurrence(torch.autograd.Function):
    apply: Callable[..., tuple[Tensor, Tensor, Tensor]]

    @staticmethod
    def forward(
        ctx: Any,
        keys: Tensor,
        values: Tensor,
        symbols: Tensor,
        hidden: Tensor,
        cell: Tensor,
        query: Tensor,
        query_bias: Tensor,
        score: Tensor,
        w_input: Tensor,
        w_hidden: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, width = symbols.shape
        from_hidden = torch.cat((query, w_hidden))
        from_hidden_bias = torch.cat((query_bias, bias))
        energies = keys.new_empty(steps, *keys.shape)
        attention = keys.new_empty(steps, len(keys))
        entries = torch.empty_like(symbols)
        gates = keys.new_empty(steps, 4 * width)
        hiddens, cells = keys.new_empty(steps + 1, width), keys.new_empty(steps + 1, width)
        tanh_cells = torch.empty_like(symbols)
        hiddens[0], cells[0] = hidden, cell
        for k in range(steps):
            mapped = torch.addmv(from_hidden_bias, from_hidden, hiddens[k])
            energy = torch.add(keys, mapped[:width], out=energies[k]).tanh_()
            torch.softmax(energy @ score, 0, out=attention[k])
            entry = torch.addmv(symbols[k], values.t(), attention[k], out=entries[k]).relu_()
            gate = torch.addmv(mapped[width:], w_input, entry, out=gates[k])
            gate[: 2 * width].sigmoid_()
            gate[2 * width : 3 * width].tanh_()
            gate[3 * width :].sigmoid_()
            i, f, g, o = gate.chunk(4)
            torch.mul(f, cells[k], out=cells[k + 1]).addcmul_(i, g)
            torch.tanh(cells[k + 1], out=tanh_cells[k])
            torch.mul(o, tanh_cells[k], out=hiddens[k + 1])
        ctx.save_for_backward(
            values, query, score, w_input, w_hidden, energies, attention, entries, gates, hiddens, cells, tanh_cells
        )
        last = cells[-1].clone()
        ctx.mark_non_differentiable(last)
        return entries, hiddens[1:].clone(), last

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_entries: Tensor, grad_states: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        (values, query, score, w_input, w_hidden, energies, attention, entries, gates, hiddens, cells, tanh_cells) = (
            ctx.saved_tensors
        )
        steps, width = entries.shape
        # Derivatives without recursion are computed for all steps at once.
        i, f, g, o = gates.chunk(4, dim=1)
        slope_o = tanh_cells * o * (1 - o)
        through_cell = o * (1 - tanh_cells.square())
        slopes = torch.cat((g * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - g.square())), dim=1)
        active = (entries > 0).to(entries.dtype)
        # Factor of a score's gradient: the score weights times the slope of tanh.
        energy_slopes = (1 - energies.square()).mul_(score)
        grad_gates, grad_symbols = torch.empty_like(gates), torch.empty_like(entries)
        grad_scores = torch.empty_like(attention)
        grad_queries = torch.empty_like(entries)
        grad_hidden, grad_cell = entries.new_zeros(width), entries.new_zeros(width)
        for k in range(steps - 1, -1, -1):
            grad_hidden = grad_hidden + grad_states[k]
            grad_cell = torch.addcmul(grad_cell, grad_hidden, through_cell[k])
            gate = grad_gates[k]
            torch.mul(slopes[k].view(3, width), grad_cell, out=gate[: 3 * width].view(3, width))
            torch.mul(grad_hidden, slope_o[k], out=gate[3 * width :])
            grad_cell = grad_cell * f[k]
            context = torch.addmv(grad_entries[k], w_input.t(), gate, out=grad_symbols[k]).mul_(active[k])
            grad_attention = values @ context
            weighted = attention[k] * grad_attention
            torch.addcmul(weighted, attention[k], weighted.sum(), value=-1, out=grad_scores[k])
            torch.mv(energy_slopes[k].t(), grad_scores[k], out=grad_queries[k])
            grad_hidden = torch.addmv(query.t() @ grad_queries[k], w_hidden.t(), gate)
        previous = hiddens[:-1]
        grad_keys = energy_slopes.mul_(grad_scores[:, :, None]).sum(0)
        return (
            grad_keys,
            attention.t() @ grad_symbols,
            grad_symbols,
            grad_hidden,
            grad_cell,
            grad_queries.t() @ previous,
            grad_queries.sum(0),
            torch.mv(energies.view(-1, width).t(), grad_scores.view(-1)),
            grad_gates.t() @ entries,
            grad_gates.t() @ previous,
            grad_gates.sum(0),
        )

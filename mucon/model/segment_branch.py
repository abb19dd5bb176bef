"""The segment branch f_s: a sequence-to-sequence network with attention that predicts segments and their lengths."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.config import SegmentBranchConfig
from mucon.model.layers import dropout, dropout_mask
from mucon.model.recurrence import DecoderWeights, decode_given


class Encoded(NamedTuple):
    """An encoded latent sequence, which every step of the decoder reads.

    Attributes:
        keys: `[T', H]`, the encoder's states mapped to attention keys.
        values: `[T', H]`, the encoder's states mapped by the decoder's input layer.
        state: `[H]` and `[H]`, initial hidden and cell state of the decoder.
    """

    keys: Tensor
    values: Tensor
    state: tuple[Tensor, Tensor]


class Decoded(NamedTuple):
    """A decoded transcript.

    Attributes:
        transcript: action ids without the end symbol.
        log_lengths: `[M]`, relative.
        cut: decoding reached the step limit before the end symbol.
        log_prob: log probability of the transcript, including the end symbol unless `cut`.
    """

    transcript: tuple[int, ...]
    log_lengths: Tensor
    cut: bool
    log_prob: float


class SegmentBranch(nn.Module):
    """Bidirectional LSTM encoder, attention, LSTM decoder, transcript head and length head.

    The length head reads the decoder's input vector and the raw transcript logits. Deviation: the paper uses the hidden
    state and probabilities; the published program is implemented as here.

    Source: paper, section 4.3.

    Attributes:
        end_symbol: id N, which ends a transcript.
        start_symbol: id N + 1, the input of the first step.
    """

    def __init__(self, channels: int, n_actions: int, config: SegmentBranchConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.n_actions = n_actions
        self.end_symbol = n_actions
        self.start_symbol = n_actions + 1
        self.dropout = config.dropout
        self.encoder = nn.LSTM(channels, hidden, bidirectional=True)
        self.initial_hidden = nn.Linear(2 * hidden, hidden)
        self.initial_cell = nn.Linear(2 * hidden, hidden)
        self.attention_keys = nn.Parameter(torch.randn(2 * hidden, hidden) / math.sqrt(2 * hidden))
        self.attention_query = nn.Linear(hidden, hidden)
        self.attention_score = nn.Parameter(torch.randn(hidden) / math.sqrt(hidden))
        self.embedding = nn.Embedding(n_actions + 2, hidden)
        self.combine = nn.Linear(3 * hidden, hidden)
        self.decoder = nn.LSTMCell(hidden, hidden)
        self.transcript_head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_actions + 1))
        self.length_head = nn.Sequential(
            nn.ReLU(), nn.Linear(hidden + n_actions + 1, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 1)
        )

    def encode(self, latent: Tensor) -> Encoded:
        """Encodes a latent sequence `[T', D']`."""
        states, (last_hidden, last_cell) = self.encoder(latent)
        context_weight = self.combine.weight[:, self.decoder.hidden_size :]
        return Encoded(
            keys=states @ self.attention_keys,
            values=states @ context_weight.t(),
            state=(self.initial_hidden(last_hidden.flatten()), self.initial_cell(last_cell.flatten())),
        )

    def embed(self, symbols: Tensor, keep: Tensor | None = None) -> Tensor:
        """Maps symbols `[K]` to the decoder's input `[K, H]`, with random dropout or the given mask `keep` `[K, H]`."""
        embedded = functional.relu(self.embedding(symbols))
        embedded = dropout(embedded, self.dropout, self.training) if keep is None else embedded * keep
        symbol_weight = self.combine.weight[:, : self.decoder.hidden_size]
        return functional.linear(embedded, symbol_weight, self.combine.bias)

    def heads(self, entries: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Transcript logits `[K, N+1]` and log lengths `[K]` from inputs and hidden states `[K, H]`."""
        logits = self.transcript_head(states)
        return logits, self.length_head(torch.cat((entries, logits), dim=1)).squeeze(1)

    def recur(self, encoded: Encoded, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Runs K embedded symbols `[K, H]`: returns inputs and hidden states `[K, H]` and the last cell state `[H]`."""
        query, cell = self.attention_query, self.decoder
        weights = DecoderWeights(
            query.weight, query.bias, self.attention_score, cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh
        )
        return decode_given(encoded.keys, encoded.values, symbols, *encoded.state, weights)

    def teacher_forced(self, latent: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """Transcript logits `[M+1, N+1]` and log lengths `[M]`, with the true previous symbol as input of each step.

        Args:
            latent: `[T', D']`.
            symbols: `[M+1]` int64, the start symbol and the transcript.
        """
        logits, log_lengths = self.heads(*self.recur(self.encode(latent), self.embed(symbols))[:2])
        return logits, log_lengths[:-1]

    def free_running(self, latent: Tensor, n_segments: int) -> tuple[Tensor, Tensor, Tensor]:
        """Like `teacher_forced`, with the branch's own last action as input of each step.

        The actions are decoded first without a gradient, because the choice of an action has none; then one pass with
        them and the same dropout computes the outputs.

        Args:
            latent: `[T', D']`.
            n_segments: M, at least 1.

        Returns:
            Transcript logits `[M+1, N+1]`, log lengths `[M]`, and the decoded actions `[M]` int64.
        """
        encoded = self.encode(latent)
        blank = latent.new_ones(n_segments + 1, self.decoder.hidden_size)
        keep = dropout_mask(blank, self.dropout) if self.training and self.dropout > 0 else blank
        with torch.no_grad():
            reached = encoded
            symbols = [latent.new_full((1,), self.start_symbol, dtype=torch.long)]
            for step in range(n_segments):
                _, hidden, cell = self.recur(reached, self.embed(symbols[-1], keep[step : step + 1]))
                reached = reached._replace(state=(hidden[0], cell))
                symbols.append(self.transcript_head(hidden)[:, : self.n_actions].argmax(dim=1))
        given = torch.cat(symbols)
        logits, log_lengths = self.heads(*self.recur(encoded, self.embed(given, keep))[:2])
        return logits, log_lengths[:-1], given[1:]

    def greedy(self, encoded: Encoded, max_segments: int) -> Decoded:
        """Decodes the most likely symbol at each step until the end symbol, at most `max_segments` actions."""
        latent = encoded.keys
        symbol = self.start_symbol
        transcript: list[int] = []
        log_lengths: list[Tensor] = []
        taken: list[Tensor] = []
        cut = True
        for n_done in range(max_segments + 1):
            entry, hidden, cell = self.recur(encoded, self.embed(latent.new_tensor([symbol], dtype=torch.long)))
            encoded = encoded._replace(state=(hidden[0], cell))
            logits, log_length = self.heads(entry, hidden)
            symbol, likelihood = int(logits[0].argmax()), logits.max(dim=1).values - logits.logsumexp(dim=1)
            if symbol == self.end_symbol:
                taken.append(likelihood)
                cut = False
                break
            if n_done < max_segments:
                transcript.append(symbol)
                log_lengths.append(log_length[0])
                taken.append(likelihood)
        lengths = torch.stack(log_lengths) if log_lengths else latent.new_zeros(0)
        log_prob = float(torch.cat(taken).sum().detach()) if taken else 0.0
        return Decoded(tuple(transcript), lengths, cut, log_prob)

    @torch.no_grad()
    def beam(self, encoded: Encoded, max_segments: int, width: int) -> tuple[Decoded, ...]:
        """Beam search for the most likely transcripts.

        At each step, `width` unfinished prefixes are kept. The end symbol finishes a prefix, at the latest after
        `max_segments` actions. The search stops when `width` finished transcripts are more likely than every
        unfinished prefix.

        Args:
            encoded: one recording.
            max_segments: maximum number of actions.
            width: at least 1; memory is `[width, T', H]`.

        Returns:
            At most `width` transcripts, the most likely first.
        """
        device, n = encoded.keys.device, self.n_actions
        hidden, cell = (state[None] for state in encoded.state)
        symbols = torch.full((1,), self.start_symbol, device=device)
        log_probs = torch.zeros(1, device=device, dtype=encoded.keys.dtype)
        prefixes = torch.empty(1, 0, dtype=torch.long, device=device)
        log_lengths = torch.empty(1, 0, device=device, dtype=encoded.keys.dtype)
        done: list[Decoded] = []
        for step in range(max_segments + 1):
            logits, length, hidden, cell = self.step(encoded, symbols, hidden, cell)
            reached = log_probs[:, None] + torch.log_softmax(logits, dim=1)
            done += _ended(prefixes, log_lengths, reached[:, self.end_symbol])
            done = sorted(done, key=lambda decoded: -decoded.log_prob)[:width]
            if step == max_segments:
                break
            log_probs, chosen = reached[:, :n].flatten().topk(min(width, reached[:, :n].numel()))
            if len(done) == width and done[-1].log_prob >= float(log_probs[0]):
                break
            parents, symbols = chosen // n, chosen % n
            prefixes = torch.cat((prefixes[parents], symbols[:, None]), dim=1)
            log_lengths = torch.cat((log_lengths[parents], length[parents, None]), dim=1)
            hidden, cell = hidden[parents], cell[parents]
        return tuple(done)

    def step(
        self, encoded: Encoded, symbols: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One step of B prefixes: logits `[B, N+1]`, log lengths `[B]`, hidden and cell states `[B, H]`."""
        energies = torch.tanh(encoded.keys + self.attention_query(hidden)[:, None])
        attention = torch.softmax(energies @ self.attention_score, dim=1)
        entries = functional.relu(self.embed(symbols) + attention @ encoded.values)
        hidden, cell = self.decoder(entries, (hidden, cell))
        logits, log_lengths = self.heads(entries, hidden)
        return logits, log_lengths, hidden, cell


def _ended(prefixes: Tensor, log_lengths: Tensor, log_probs: Tensor) -> list[Decoded]:
    values = zip(prefixes.tolist(), log_lengths, log_probs.tolist(), strict=True)
    return [Decoded(tuple(actions), lengths, cut=False, log_prob=log_prob) for actions, lengths, log_prob in values]

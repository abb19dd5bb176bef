"""An ensemble of networks with the same size and other weights, which decodes like a single network.

Every distribution of the ensemble is proportional to the geometric mean of the members': the mean of their log
probabilities, normalised again. For the frames these are the log probabilities of each frame. For the segments these
are those of the next symbol at each step, where every member reads the same earlier symbols; the log lengths of the
segments, which are relative, are the mean of the members'. Decoding then proceeds from these values only.

Sources: logarithmic opinion pools, Heskes (NIPS 1997); the mean at each step of a decoder, Sutskever, Vinyals and Le,
"Sequence to sequence learning with neural networks" (NIPS 2014).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from mucon.model.network import MuConNetwork, NetworkSize, TeacherForced
from mucon.model.segment_branch import Decoded, Encoded, SegmentBranch


def mean_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """The normalised geometric mean of distributions: log probabilities `[..., N]` of each member -> `[..., N]`."""
    return torch.log_softmax(torch.stack(tuple(log_probs)).mean(dim=0), dim=-1)


class EnsembleBranch(SegmentBranch):
    """The segment branches of the members as one; without weights of its own.

    An `Encoded` contains keys and values `[K, T', H]` and states `[K H]` of the K members, in their order.

    Args:
        members: at least one, of the same size.
    """

    def __init__(self, members: Sequence[SegmentBranch]) -> None:
        nn.Module.__init__(self)
        self.branches = tuple(members)
        self.n_actions, self.end_symbol = members[0].n_actions, members[0].end_symbol
        self.start_symbol, self.dropout = members[0].start_symbol, 0.0

    def encode(self, latent: Tensor) -> Encoded:
        """Encodes the latent sequences `[K, T', D']` of the members."""
        encoded = [branch.encode(own) for branch, own in zip(self.branches, latent, strict=True)]
        states = (torch.cat([one.state[i] for one in encoded]) for i in range(2))
        keys, values = (torch.stack([getattr(one, name) for one in encoded]) for name in ("keys", "values"))
        return Encoded(keys, values, (next(states), next(states)))

    def step(
        self, encoded: Encoded, symbols: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One step of B prefixes, see `SegmentBranch.step`; states are `[B, K H]`."""
        n = len(self.branches)
        stepped = [
            branch.step(Encoded(keys, values, encoded.state), symbols, own_hidden, own_cell)
            for branch, keys, values, own_hidden, own_cell in zip(
                self.branches, encoded.keys, encoded.values, hidden.chunk(n, dim=1), cell.chunk(n, dim=1), strict=True
            )
        ]
        logits, log_lengths, hiddens, cells = zip(*stepped, strict=True)
        log_probs = mean_log_probs([torch.log_softmax(one, dim=1) for one in logits])
        return log_probs, torch.stack(log_lengths).mean(dim=0), torch.cat(hiddens, dim=1), torch.cat(cells, dim=1)

    def greedy(self, encoded: Encoded, max_segments: int) -> Decoded:
        """Decodes the most likely symbol at each step, see `SegmentBranch.greedy`."""
        symbols = torch.full((1,), self.start_symbol, device=encoded.keys.device)
        hidden, cell = (state[None] for state in encoded.state)
        transcript: list[int] = []
        log_lengths: list[Tensor] = []
        log_prob, cut = 0.0, True
        for n_done in range(max_segments + 1):
            log_probs, length, hidden, cell = self.step(encoded, symbols, hidden, cell)
            symbols = log_probs.argmax(dim=1)
            symbol = int(symbols)
            cut = symbol != self.end_symbol
            if cut and n_done == max_segments:
                break
            log_prob += float(log_probs[0, symbol])
            if not cut:
                break
            transcript.append(symbol)
            log_lengths.append(length[0])
        lengths = torch.stack(log_lengths) if log_lengths else encoded.keys.new_zeros(0)
        return Decoded(tuple(transcript), lengths, cut, log_prob)


class MuConEnsemble(MuConNetwork):
    """Networks with the same size, for inference.

    Args:
        members: at least one.
    """

    def __init__(self, members: Sequence[MuConNetwork]) -> None:
        nn.Module.__init__(self)
        self.members = nn.ModuleList(members)
        self.size: NetworkSize = members[0].size
        self.stride = members[0].stride

    @property
    def networks(self) -> list[MuConNetwork]:
        """The members."""
        return [member for member in self.members if isinstance(member, MuConNetwork)]

    @property
    def branch(self) -> EnsembleBranch:
        """The segment branches of the members as one."""
        return EnsembleBranch([member.segment_branch for member in self.networks])

    def forward(self, features: Tensor, transcript: Tensor) -> TeacherForced:
        """Runs all branches with teacher forcing, see `MuConNetwork.forward`; the logits are log probabilities."""
        outputs = [member(features, transcript) for member in self.networks]
        return TeacherForced(
            mean_log_probs([torch.log_softmax(one.latent_logits, dim=1) for one in outputs]),
            outputs[0].latent_of_frame,
            mean_log_probs([torch.log_softmax(one.transcript_logits, dim=1) for one in outputs]),
            torch.stack([one.log_lengths for one in outputs]).mean(dim=0),
        )

    @torch.no_grad()
    def encode(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Latent sequences `[K, T', D']` of the members, and frame log probabilities `[T, N]`."""
        latents, log_probs = zip(*(member.encode(features) for member in self.networks), strict=True)
        return torch.stack(latents), mean_log_probs(log_probs)

    @torch.no_grad()
    def name_segments(self, latent: Tensor) -> tuple[Decoded, Encoded]:
        """Decodes the segments greedily, see `MuConNetwork.name_segments`."""
        branch = self.branch
        encoded = branch.encode(latent)
        return branch.greedy(encoded, self.size.max_segments), encoded

    def likeliest_segments(self, encoded: Encoded, width: int) -> tuple[Decoded, ...]:
        """Decodes an encoded sequence with a beam of `width`; the most likely transcript first."""
        return self.branch.beam(encoded, self.size.max_segments, width)


def ensemble_state(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of an ensemble from those of its members, in their order."""
    return {f"members.{i}.{name}": tensor for i, state in enumerate(states) for name, tensor in state.items()}

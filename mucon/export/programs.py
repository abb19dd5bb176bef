"""The networks of MuCon as programs of torch.export, for every length: `programs/*.pt2`.

The files have the inputs and outputs of `mucon.export.onnx_files`. torch.export follows one path through Python for all
lengths, so that the layers are written here without a branch on the length, as in the ONNX graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.fx.experimental._config as export_config
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.nn import functional

from mucon.checkpoint_files import write_json
from mucon.errors import InputError, Problem
from mucon.export.onnx_files import runner_facts
from mucon.export.runner import FACTS, Array, Runner, read_json, runner_of
from mucon.identity.checksums import check_sums
from mucon.inference import MuConPredictor
from mucon.library import load_predictor
from mucon.model import MuConNetwork
from mucon.model.ensemble import MuConEnsemble, mean_log_probs
from mucon.model.layers import DualDilatedLayer, ResidualLayer, linear
from mucon.model.segment_branch import SegmentBranch

FOLDER = "programs"
EXAMPLE_FRAMES = 40
"""Length with which a program is traced; it holds for all others."""


class Frames(nn.Module):
    """Features `[T, D]` -> log probabilities `[T, N]` and latent sequences `[K, T', D']`."""

    def __init__(self, networks: list[MuConNetwork]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Runs backbone and frame branch of the members."""
        latents, log_probs = [], []
        for network in self.networks:
            assert isinstance(network, MuConNetwork)
            latent = _latent(network, features)
            own = torch.log_softmax(network.frame_branch(latent), dim=1)
            frames = torch.arange(features.shape[0])
            if network.stride is None:
                index = (frames * latent.shape[0]).div(features.shape[0], rounding_mode="floor")
            else:
                index = torch.minimum(
                    frames.div(network.stride, rounding_mode="floor"), torch.arange(latent.shape[0]).max()
                )
            latents.append(latent)
            log_probs.append(own[index])
        return log_probs[0] if len(log_probs) == 1 else mean_log_probs(log_probs), torch.stack(latents)


class Encoder(nn.Module):
    """Latent sequences `[K, T', D']` -> keys, values `[K, T', H]`, hidden and cell states `[1, K H]`."""

    def __init__(self, branches: list[SegmentBranch]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, latent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Runs the encoders of the members."""
        keys, values, hiddens, cells = [], [], [], []
        for k, branch in enumerate(self.branches):
            assert isinstance(branch, SegmentBranch)
            states, hidden, cell = _bidirectional(branch.encoder, latent[k])
            keys.append(states @ branch.attention_keys)
            values.append(states @ branch.combine.weight[:, branch.decoder.hidden_size :].t())
            hiddens.append(branch.initial_hidden(hidden))
            cells.append(branch.initial_cell(cell))
        return torch.stack(keys), torch.stack(values), torch.cat(hiddens)[None], torch.cat(cells)[None]


class Decoder(nn.Module):
    """One step of B prefixes: log probabilities, log lengths, hidden and cell states."""

    def __init__(self, branches: list[SegmentBranch]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(
        self, symbols: Tensor, hidden: Tensor, cell: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Runs one step of the members' decoders."""
        n = len(self.branches)
        parts = zip(self.branches, keys, values, hidden.chunk(n, dim=1), cell.chunk(n, dim=1), strict=True)
        log_probs, log_lengths, hiddens, cells = zip(*(_step(*part, symbols) for part in parts), strict=True)
        mean = log_probs[0] if n == 1 else mean_log_probs(log_probs)
        return mean, torch.stack(log_lengths).mean(dim=0), torch.cat(hiddens, dim=1), torch.cat(cells, dim=1)


def write_programs(folder: Path) -> None:
    """Writes the programs of the model in a folder into its folder `programs`.

    Raises:
        InputError: a method other than MuCon (rule `unsupported`).
    """
    predictor = load_predictor(folder, "cpu")
    if not isinstance(predictor, MuConPredictor):
        message = f"the method {predictor.method} has no programs of torch.export"
        raise InputError(Problem(rule="unsupported", place="--torch-export", value=predictor.method, message=message))
    target = folder / FOLDER
    target.mkdir()
    model = predictor.checkpoint.model
    networks = model.networks if isinstance(model, MuConEnsemble) else [model]
    branches = [network.segment_branch for network in networks]
    features = torch.zeros(EXAMPLE_FRAMES, model.size.dim)
    frames, encoder, decoder = Frames(networks).eval(), Encoder(branches).eval(), Decoder(branches).eval()
    any_length = Dim.DYNAMIC
    with torch.no_grad(), _every_length():
        latent = frames(features)[1]
        keys, values, hidden, cell = encoder(latent)
        prefixes = (torch.zeros(2, dtype=torch.long), hidden.repeat(2, 1), cell.repeat(2, 1), keys, values)
        shapes = ({0: any_length}, {0: any_length}, {0: any_length}, {1: any_length}, {1: any_length})
        _save(target / "frames.pt2", frames, (features,), ({0: any_length},))
        _save(target / "encoder.pt2", encoder, (latent,), ({1: any_length},))
        _save(target / "decoder.pt2", decoder, prefixes, shapes)
    write_json(target / FACTS, {"torch": torch.__version__, **runner_facts(predictor)})


def load_programs(folder: str | Path) -> Runner:
    """Loads an exported model with programs of torch.export after a check of its checksums.

    Args:
        folder: an exported folder (`mucon export --torch-export`).

    Raises:
        InputError: a damaged folder, or one without programs.
    """
    path = Path(folder)
    check_sums(path)
    facts = path / FOLDER / FACTS
    if not facts.is_file():
        hint = "export the model again with --torch-export"
        problem = Problem(rule="missing", place=str(path), value=str(path), message="no programs", hint=hint)
        raise InputError(problem)
    return runner_of(path, Programs(path / FOLDER), read_json(facts))


class Programs:
    """Networks as loaded programs; a `mucon.export.runner.Networks`.

    Args:
        folder: the folder `programs`.
    """

    def __init__(self, folder: Path) -> None:
        names = ("frames", "encoder", "decoder")
        self._programs = {name: torch.export.load(folder / f"{name}.pt2").module() for name in names}

    def frames(self, features: Array) -> tuple[Array, ...]:
        """See `Networks`."""
        return self._run("frames", features)

    def encoder(self, latent: Array) -> tuple[Array, Array, Array, Array]:
        """See `Networks`."""
        keys, values, hidden, cell = self._run("encoder", latent)
        return keys, values, hidden, cell

    def decoder(
        self, symbols: NDArray[np.int64], hidden: Array, cell: Array, keys: Array, values: Array
    ) -> tuple[Array, Array, Array, Array]:
        """See `Networks`."""
        log_probs, log_lengths, *states = self._run("decoder", symbols, hidden, cell, keys, values)
        return log_probs, log_lengths, states[0], states[1]

    @torch.no_grad()
    def _run(self, name: str, *inputs: NDArray[Any]) -> tuple[Any, ...]:
        found = self._programs[name](*(torch.from_numpy(np.ascontiguousarray(one)) for one in inputs))
        return tuple(one.numpy() for one in found)


@contextmanager
def _every_length() -> Iterator[None]:
    """Lets a program hold for the lengths 0 and 1, too, which torch.export treats as constants otherwise."""
    config: Any = export_config
    with config.patch(backed_size_oblivious=True):
        yield


def _save(path: Path, module: nn.Module, example: tuple[Tensor, ...], shapes: tuple[dict[int, Any], ...]) -> None:
    torch.export.save(torch.export.export(module, example, dynamic_shapes=shapes), path)


def _latent(network: MuConNetwork, features: Tensor) -> Tensor:
    """The latent sequence, see `mucon.model.backbone.Backbone`."""
    backbone = network.backbone
    x = torch.relu(linear(features, backbone.first))
    for i, layer in enumerate(backbone.layers):
        x = _layer(layer, x)
        if i in backbone.pool_after:
            second: Any = torch.sym_min(x.shape[0] - 1, 1)  # type: ignore[no-untyped-call]  # a row is its own partner
            n_pairs: Any = torch.sym_max(x.shape[0] // 2, 1)  # type: ignore[no-untyped-call]
            first = 2 * torch.arange(n_pairs)
            x = torch.maximum(x[first], x[first + second])
    return torch.relu(_group_norm(linear(torch.relu(x), backbone.last), backbone.norm))


def _layer(layer: nn.Module, x: Tensor) -> Tensor:
    if isinstance(layer, ResidualLayer):
        hidden = torch.relu(_dilated(x, layer.dilated_weight, layer.dilated_bias, layer.dilation))
        return x + torch.addmm(layer.output_bias, hidden, layer.output_weight)
    if isinstance(layer, DualDilatedLayer):
        weights = zip(layer.dilated_weights, layer.dilated_biases, layer.dilations, strict=True)
        both = [_dilated(x, weight, bias, dilation) for weight, bias, dilation in weights]
        return x + torch.relu(torch.addmm(layer.fusion_bias, torch.cat(both, dim=1), layer.fusion_weight))
    return x


def _dilated(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """Dilated convolution of width 3 with zero padding; `weight` is `[3, C, C']`."""
    n_frames, padded = x.shape[0], functional.pad(x, (0, 0, dilation, dilation))
    taps = [padded[shift : shift + n_frames] for shift in (0, dilation, 2 * dilation)]
    return torch.addmm(bias, taps[1], weight[1]) + taps[0] @ weight[0] + taps[2] @ weight[2]


def _group_norm(x: Tensor, norm: nn.GroupNorm) -> Tensor:
    """Group norm with statistics over a group's channels and all rows."""
    groups: Tensor = x.unflatten(1, (norm.num_groups, -1))  # type: ignore[no-untyped-call]
    centred = groups - groups.mean(dim=(0, 2), keepdim=True)
    variance = centred.square().mean(dim=(0, 2), keepdim=True)
    even: Tensor = (centred * torch.rsqrt(variance + norm.eps)).flatten(1)
    return even * norm.weight + norm.bias


def _step(
    branch: Any, keys: Tensor, values: Tensor, hidden: Tensor, cell: Tensor, symbols: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One step of a member, see `SegmentBranch.step`: log probabilities, log lengths, hidden and cell states."""
    energies = torch.tanh(keys + branch.attention_query(hidden)[:, None])
    attention = torch.softmax(energies @ branch.attention_score, dim=1)
    entries = torch.relu(branch.embed(symbols) + attention @ values)
    weights = branch.decoder
    gates = functional.linear(entries, weights.weight_ih, weights.bias_ih + weights.bias_hh)
    hidden, cell = _cell(gates + functional.linear(hidden, weights.weight_hh), cell)
    logits, log_lengths = branch.heads(entries, hidden)
    return torch.log_softmax(logits, dim=1), log_lengths, hidden, cell


def _cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell states of an LSTM from its gates `[..., 4H]` and last cell state `[..., H]`."""
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _bidirectional(lstm: nn.LSTM, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """States `[T', 2H]` and last states `[2H]` of both directions."""
    forth, hidden, cell = _recurrence(lstm, x, "")
    back, hidden_back, cell_back = _recurrence(lstm, x.flip(0), "_reverse")
    states = torch.cat((forth, back.flip(0)), dim=1)
    return states, torch.cat((hidden, hidden_back)), torch.cat((cell, cell_back))


def _recurrence(lstm: nn.LSTM, x: Tensor, direction: str) -> tuple[Tensor, Tensor, Tensor]:
    """States `[T', H]` and last states `[H]` of an LSTM; its own operator is unrolled by torch.export."""
    w_input, w_hidden, b_input, b_hidden = (
        getattr(lstm, f"{name}_l0{direction}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )

    def step(state: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = state.chunk(2)
        hidden, cell = _cell(given + torch.mv(w_hidden, hidden), cell)
        return torch.cat((hidden, cell)), hidden.clone()

    start = x.new_zeros(2 * lstm.hidden_size)
    last, states = scan(step, start, functional.linear(x, w_input, b_input + b_hidden), dim=0)
    hidden, cell = last.chunk(2)
    return states, hidden, cell

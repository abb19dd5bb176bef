"""The networks of a trained model as ONNX files: `onnx/frames.onnx`, and for MuCon `encoder.onnx` and `decoder.onnx`.

| file | inputs | outputs |
|---|---|---|
| frames | features `[T, D]` | log_probs `[T, N]`; MuCon also latent `[K, T', D']` |
| encoder | latent `[K, T', D']` | keys, values `[K, T', H]`, hidden, cell `[1, K H]` |
| decoder | symbols `[B]`, hidden and cell `[B, K H]`, keys, values | log_probs `[B, N+1]`, log_lengths `[B]`, states |

K is the number of members of an ensemble, 1 for a single model; B is the number of prefixes of a beam. Symbol N ends a
transcript, symbol N + 1 starts it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mucon.checkpoint_files import write_json
from mucon.errors import InputError, Problem
from mucon.export.onnx_graph import (
    OPSET,
    Graph,
    at_each_frame,
    group_norm,
    layer,
    mean_log_probs,
    pool_pairs,
)
from mucon.export.runner import FACTS, ONNX
from mucon.inference import MuConPredictor
from mucon.library import load_predictor
from mucon.method import Predictor
from mucon.methods.frame_mlp import FrameMlp
from mucon.methods.frames.networks import FrameClassifier, FrameEnsemble
from mucon.methods.frames.predictor import FramePredictor
from mucon.methods.ms_tcn.network import MsTcnNetwork, Stage
from mucon.model import MuConNetwork
from mucon.model.ensemble import MuConEnsemble
from mucon.model.segment_branch import SegmentBranch


def write_onnx(folder: Path) -> None:
    """Writes the networks of the model in a folder, and what a runner needs besides them, into its folder `onnx`.

    Raises:
        InputError: a method whose network has no ONNX form (rule `unsupported`).
    """
    predictor = load_predictor(folder, "cpu")
    target = folder / ONNX
    target.mkdir()
    if isinstance(predictor, MuConPredictor):
        _write_mucon(target, predictor)
    else:
        _write_classifier(target, predictor)
    write_json(target / FACTS, {"opset": OPSET, **runner_facts(predictor)})


def runner_facts(predictor: Predictor) -> dict[str, object]:
    """What a runner needs to know besides the networks, as plain values."""
    facts = {"format_version": 1, "method": predictor.method, "dim": predictor.dim}
    facts |= {"predictions": list(predictor.predictions), "main": predictor.main}
    if isinstance(predictor, MuConPredictor):
        facts["max_segments"] = predictor.checkpoint.model.size.max_segments
    return facts


def _write_classifier(target: Path, predictor: Predictor) -> None:
    if not isinstance(predictor, FramePredictor):
        raise InputError(_no_onnx(predictor.method))
    graph = Graph("frames", {"features": ("float", ["T", predictor.dim])})
    log_probs = [_classified(graph, member, predictor.method) for member in _members(predictor.classifier)]
    shape: list[str | int] = ["T", predictor.vocabulary.n_actions]
    graph.write(target / "frames.onnx", {"log_probs": (mean_log_probs(graph, log_probs), "float", shape)})


def _members(classifier: FrameClassifier) -> list[nn.Module]:
    return list(classifier.members) if isinstance(classifier, FrameEnsemble) else [classifier]


def _classified(graph: Graph, network: nn.Module, method: str) -> str:
    """Log probabilities `[T, N]` of a frame classifier."""
    if isinstance(network, FrameMlp):
        x = "features"
        for module in network.layers:
            x = layer(graph, x, module)
        return str(graph.op("LogSoftmax", x, axis=1))
    if isinstance(network, MsTcnNetwork):
        refinements = [network.refinements[min(i, len(network.refinements) - 1)] for i in range(network.n_stages - 1)]
        log_probs = _stage(graph, "features", network.prediction)
        for stage in refinements:
            log_probs = _stage(graph, graph.op("Exp", log_probs), stage)
        return log_probs
    raise InputError(_no_onnx(method))


def _no_onnx(method: str) -> Problem:
    message = f"the method {method} has no ONNX form"
    return Problem(rule="unsupported", place="--onnx", value=method, message=message)


def _stage(graph: Graph, x: str, stage: nn.Module) -> str:
    assert isinstance(stage, Stage)
    for module in (stage.first, *stage.layers, stage.last):
        x = layer(graph, x, module)
    return str(graph.op("LogSoftmax", x, axis=1))


def _write_mucon(target: Path, predictor: MuConPredictor) -> None:
    model = predictor.checkpoint.model
    networks = model.networks if isinstance(model, MuConEnsemble) else [model]
    _write_frames(target / "frames.onnx", networks)
    _write_encoder(target / "encoder.onnx", [network.segment_branch for network in networks])
    _write_decoder(target / "decoder.onnx", [network.segment_branch for network in networks])


def _write_frames(path: Path, networks: list[MuConNetwork]) -> None:
    size = networks[0].size
    graph = Graph("frames", {"features": ("float", ["T", size.dim])})
    latents, log_probs = [], []
    for network in networks:
        backbone = network.backbone
        x = graph.op("Relu", layer(graph, "features", backbone.first))
        for i, module in enumerate(backbone.layers):
            x = layer(graph, x, module)
            if i in backbone.pool_after:
                x = pool_pairs(graph, x)
        x = graph.op("Relu", group_norm(graph, layer(graph, graph.op("Relu", x), backbone.last), backbone.norm))
        own = graph.op("LogSoftmax", layer(graph, x, network.frame_branch), axis=1)
        log_probs.append(at_each_frame(graph, own, graph.length("features"), network.stride))
        latents.append(graph.op("Unsqueeze", x, graph.constant([0])))
    channels = networks[0].backbone.last.out_features
    latent = graph.op("Concat", *latents, axis=0)
    graph.write(
        path,
        {
            "log_probs": (mean_log_probs(graph, log_probs), "float", ["T", size.n_actions]),
            "latent": (latent, "float", [len(networks), "latent_frames", channels]),
        },
    )


def _write_encoder(path: Path, branches: list[SegmentBranch]) -> None:
    channels, hidden_size = branches[0].encoder.input_size, branches[0].decoder.hidden_size
    graph = Graph("encoder", {"latent": ("float", [len(branches), "latent_frames", channels])})
    found: dict[str, list[str]] = {"keys": [], "values": [], "hidden": [], "cell": []}
    for k, branch in enumerate(branches):
        x = graph.op("Gather", "latent", graph.constant([k]), axis=0)
        states, last_hidden, last_cell = _bidirectional(graph, graph.op("Transpose", x, perm=[1, 0, 2]), branch.encoder)
        context = branch.combine.weight[:, hidden_size:]
        keys = graph.op("MatMul", states, graph.constant(branch.attention_keys))
        found["keys"].append(graph.op("Unsqueeze", keys, graph.constant([0])))
        values = graph.linear(states, context, None)
        found["values"].append(graph.op("Unsqueeze", values, graph.constant([0])))
        found["hidden"].append(layer(graph, last_hidden, branch.initial_hidden))
        found["cell"].append(layer(graph, last_cell, branch.initial_cell))
    read: list[str | int] = [len(branches), "latent_frames", hidden_size]
    state: list[str | int] = [1, len(branches) * hidden_size]
    graph.write(
        path,
        {
            name: (graph.op("Concat", *parts, axis=0 if name in ("keys", "values") else 1), "float", shape)
            for (name, parts), shape in zip(found.items(), (read, read, state, state), strict=True)
        },
    )


def _bidirectional(graph: Graph, x: str, lstm: nn.LSTM) -> tuple[str, str, str]:
    """States `[T', 2H]` and last states `[1, 2H]` of both directions on `[T', 1, D']`."""
    hidden = lstm.hidden_size

    def gates(name: str) -> Tensor:
        """Both directions with the gates in ONNX's order i, o, f, c instead of i, f, g, o."""
        parts = [getattr(lstm, f"{name}_l0{direction}").detach().chunk(4) for direction in ("", "_reverse")]
        return torch.stack([torch.cat((i, o, f, g)) for i, f, g, o in parts])

    bias = torch.cat((gates("bias_ih"), gates("bias_hh")), dim=1)
    weights = [graph.constant(one) for one in (gates("weight_ih"), gates("weight_hh"), bias)]
    y, last_hidden, last_cell = graph.op(
        "LSTM", x, *weights, n_outputs=3, hidden_size=hidden, direction="bidirectional"
    )
    states = graph.op("Reshape", graph.op("Transpose", y, perm=[0, 2, 1, 3]), graph.constant([-1, 2 * hidden]))
    flat = [graph.op("Reshape", one, graph.constant([1, 2 * hidden])) for one in (last_hidden, last_cell)]
    return states, flat[0], flat[1]


def _write_decoder(path: Path, branches: list[SegmentBranch]) -> None:
    K, H = len(branches), branches[0].decoder.hidden_size
    inputs: dict[str, tuple[str, list[str | int]]] = {
        "symbols": ("int64", ["B"]),
        "hidden": ("float", ["B", K * H]),
        "cell": ("float", ["B", K * H]),
        "keys": ("float", [K, "latent_frames", H]),
        "values": ("float", [K, "latent_frames", H]),
    }
    graph = Graph("decoder", inputs)
    steps = [_step(graph, branch, k, K) for k, branch in enumerate(branches)]
    log_probs, log_lengths, hiddens, cells = ([one[i] for one in steps] for i in range(4))
    mean_length = graph.op("Div", graph.op("Sum", *log_lengths), graph.constant(np.float32(K)))
    graph.write(
        path,
        {
            "log_probs": (mean_log_probs(graph, log_probs), "float", ["B", branches[0].n_actions + 1]),
            "log_lengths": (mean_length, "float", ["B"]),
            "next_hidden": (graph.op("Concat", *hiddens, axis=1), "float", ["B", K * H]),
            "next_cell": (graph.op("Concat", *cells, axis=1), "float", ["B", K * H]),
        },
    )


def _step(graph: Graph, branch: SegmentBranch, k: int, n_members: int) -> tuple[str, str, str, str]:
    """One step of a member, see `SegmentBranch.step`: log probabilities, log lengths, hidden and cell states."""
    H, cell = branch.decoder.hidden_size, branch.decoder
    hidden, state = (_part(graph, name, k, n_members, H) for name in ("hidden", "cell"))
    keys, values = (graph.op("Gather", name, graph.constant(k), axis=0) for name in ("keys", "values"))
    query = graph.op("Unsqueeze", layer(graph, hidden, branch.attention_query), graph.constant([1]))
    energies = graph.op("Tanh", graph.op("Add", keys, query))
    attention = graph.op("Softmax", graph.op("MatMul", energies, graph.constant(branch.attention_score)), axis=1)
    context = graph.op("MatMul", attention, values)
    embedded = graph.op("Relu", graph.op("Gather", graph.constant(branch.embedding.weight), "symbols", axis=0))
    entries = graph.linear(embedded, branch.combine.weight[:, :H], branch.combine.bias)
    entries = graph.op("Relu", graph.op("Add", entries, context))
    gates = graph.op(
        "Add",
        graph.linear(entries, cell.weight_ih, cell.bias_ih + cell.bias_hh),
        graph.linear(hidden, cell.weight_hh, None),
    )
    i, f, g, o = graph.op("Split", gates, axis=1, n_outputs=4)
    i, f, o = (graph.op("Sigmoid", gate) for gate in (i, f, o))
    kept, taken = graph.op("Mul", f, state), graph.op("Mul", i, graph.op("Tanh", g))
    state = graph.op("Add", kept, taken)
    hidden = graph.op("Mul", o, graph.op("Tanh", state))
    logits = hidden
    for module in branch.transcript_head:
        logits = layer(graph, logits, module)
    lengths = graph.op("Concat", entries, logits, axis=1)
    for module in branch.length_head:
        lengths = layer(graph, lengths, module)
    log_probs = graph.op("LogSoftmax", logits, axis=1)
    return log_probs, graph.op("Squeeze", lengths, graph.constant([1])), hidden, state


def _part(graph: Graph, name: str, k: int, n_members: int, size: int) -> str:
    """The state `[B, H]` of a member."""
    if n_members == 1:
        return name
    start, stop, axis = (graph.constant([one]) for one in (k * size, (k + 1) * size, 1))
    return str(graph.op("Slice", name, start, stop, axis))

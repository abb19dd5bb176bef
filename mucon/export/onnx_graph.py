"""Writes networks on `[T, C]` tensors as ONNX graphs that hold for every T from 1 on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from mucon.model.layers import DualDilatedLayer, ResidualLayer

OPSET = 17
"""Version of the ONNX operators; runtimes since 2022 have it."""
IR_VERSION = 8
"""Version of the file format that belongs to the opset."""
TYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64}


class Graph:
    """An ONNX graph under construction; values are named by strings.

    Args:
        name: name of the graph.
        inputs: input -> type and shape; a text in a shape is the name of a dynamic dimension.
    """

    def __init__(self, name: str, inputs: Mapping[str, tuple[str, Sequence[str | int]]]) -> None:
        self.name = name
        self.inputs = [helper.make_tensor_value_info(one, TYPES[kind], shape) for one, (kind, shape) in inputs.items()]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node; returns the name of its output, or a tuple of names for several."""
        names = [f"{kind.lower()}_{len(self.nodes)}_{i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if n_outputs == 1 else tuple(names)

    def constant(self, value: ArrayLike | Tensor) -> str:
        """Adds a constant: tensors as they are, whole numbers as int64."""
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def linear(self, x: str, weight: Tensor, bias: Tensor | None) -> str:
        """`x @ weight.T + bias`."""
        y = self.op("MatMul", x, self.constant(weight.t()))
        return str(y if bias is None else self.op("Add", y, self.constant(bias)))

    def length(self, x: str) -> str:
        """The number of rows `[1]`."""
        return str(self.op("Shape", x, start=0, end=1))

    def write(self, path: Path, outputs: Mapping[str, tuple[str, str, Sequence[str | int]]]) -> None:
        """Checks the graph and writes it.

        Args:
            path: the file.
            outputs: name of the output -> value, type and shape.
        """
        ends = [helper.make_node("Identity", [value], [name]) for name, (value, _, _) in outputs.items()]
        shown = [helper.make_tensor_value_info(name, TYPES[kind], shape) for name, (_, kind, shape) in outputs.items()]
        graph = helper.make_graph([*self.nodes, *ends], self.name, self.inputs, shown, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="mucon")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))


def dilated(graph: Graph, x: str, weight: Tensor, bias: Tensor, dilation: int) -> str:
    """Dilated convolution of width 3 with zero padding; `weight` is `[3, C, C']`."""
    rows = graph.op("Unsqueeze", graph.op("Transpose", x, perm=[1, 0]), graph.constant([0]))
    kernel, offset = graph.constant(weight.permute(2, 1, 0).contiguous()), graph.constant(bias)
    y = graph.op("Conv", rows, kernel, offset, kernel_shape=[3], dilations=[dilation], pads=[dilation, dilation])
    return str(graph.op("Transpose", graph.op("Squeeze", y, graph.constant([0])), perm=[1, 0]))


def layer(graph: Graph, x: str, module: nn.Module) -> str:
    """A layer of a network on `[T, C]`, without dropout."""
    if isinstance(module, ResidualLayer):
        hidden = graph.op("Relu", dilated(graph, x, module.dilated_weight, module.dilated_bias, module.dilation))
        return str(graph.op("Add", x, graph.linear(hidden, module.output_weight.t(), module.output_bias)))
    if isinstance(module, DualDilatedLayer):
        weights = zip(module.dilated_weights, module.dilated_biases, module.dilations, strict=True)
        both = [dilated(graph, x, weight, bias, dilation) for weight, bias, dilation in weights]
        fused = graph.linear(graph.op("Concat", *both, axis=1), module.fusion_weight.t(), module.fusion_bias)
        return str(graph.op("Add", x, graph.op("Relu", fused)))
    if isinstance(module, nn.Linear):
        return graph.linear(x, module.weight, module.bias)
    if isinstance(module, nn.ReLU):
        return str(graph.op("Relu", x))
    if isinstance(module, nn.Dropout | nn.Identity):
        return x
    raise TypeError(type(module).__name__)


def pool_pairs(graph: Graph, x: str) -> str:
    """Maximum of pairs of rows; an odd last row is dropped, a single row is kept."""
    one, two, axis = graph.constant([1]), graph.constant([2]), graph.constant([0])
    length = graph.length(x)
    stop = graph.op("Mul", graph.op("Max", graph.op("Div", length, two), one), two)
    second = graph.op("Min", graph.op("Sub", length, one), one)  # the only row is its own partner
    evens = graph.op("Slice", x, axis, stop, axis, two)
    return str(graph.op("Max", evens, graph.op("Slice", x, second, stop, axis, two)))


def group_norm(graph: Graph, x: str, norm: nn.GroupNorm) -> str:
    """Group norm with statistics over a group's channels and all rows."""
    groups = graph.op("Reshape", graph.op("Transpose", x, perm=[1, 0]), graph.constant([1, norm.num_groups, -1]))
    ones, zeros = np.ones(norm.num_groups, np.float32), np.zeros(norm.num_groups, np.float32)
    even = graph.op(
        "InstanceNormalization", groups, graph.constant(ones), graph.constant(zeros), epsilon=float(norm.eps)
    )
    rows = graph.op("Transpose", graph.op("Reshape", even, graph.constant([norm.num_channels, -1])), perm=[1, 0])
    return str(graph.op("Add", graph.op("Mul", rows, graph.constant(norm.weight)), graph.constant(norm.bias)))


def mean_log_probs(graph: Graph, log_probs: Sequence[str]) -> str:
    """The normalised geometric mean of distributions; that of one is itself."""
    if len(log_probs) == 1:
        return log_probs[0]
    mean = graph.op("Div", graph.op("Sum", *log_probs), graph.constant(np.float32(len(log_probs))))
    return str(graph.op("LogSoftmax", mean, axis=-1))


def at_each_frame(graph: Graph, latent: str, n_frames: str, stride: int | None) -> str:
    """Repeats latent rows `[T', C]` for T frames, see `mucon.model.backbone.latent_index`."""
    zero, one = graph.constant(0), graph.constant(1)
    scalar = graph.op("Squeeze", n_frames)
    frames, n_latent = graph.op("Range", zero, scalar, one), graph.op("Squeeze", graph.length(latent))
    if stride is None:
        index = graph.op("Div", graph.op("Mul", frames, n_latent), scalar)
    else:
        last = graph.op("Sub", n_latent, one)
        index = graph.op("Min", graph.op("Div", frames, graph.constant(stride)), last)
    return str(graph.op("Gather", latent, index, axis=0))

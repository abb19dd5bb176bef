"""Imports the parameters of the authors' published program, which have other names and layouts."""

from __future__ import annotations

import pickle
import re
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint import Checkpoint, Progress
from mucon.config import TrainConfig
from mucon.errors import InputError, Problem
from mucon.model import NetworkSize, build_model
from mucon.vocabulary import Vocabulary

PUBLISHED_STEPS = 31
"""Step limit of the published program's free running."""
_SIZES = ("backbone.first.weight", "frame_branch.bias", "segment_branch.attention_score")

UNREADABLE = (
    *(OSError, RuntimeError, pickle.UnpicklingError, EOFError, struct.error),
    *(ValueError, LookupError, TypeError, AttributeError, AssertionError),
)
"""Errors of torch's weights-only loader on other files."""

UNUSED = ("fs_decoder_attention_l3.weight", "fs_decoder_attention_l3.bias")
"""Parameters that the published program has but never uses."""


def _same(weight: Tensor) -> Tensor:
    return weight


def _pointwise(weight: Tensor) -> Tensor:
    """`[out, in, 1]` -> `[out, in]`: a convolution of width 1 is a linear layer here."""
    return weight[:, :, 0]


_RULES: tuple[tuple[str, str, Callable[[Tensor], Tensor]], ...] = (
    (r"ft\.first_conv\.weight", "backbone.first.weight", _pointwise),
    (r"ft\.first_conv\.bias", "backbone.first.bias", _same),
    (r"ft\.last_conv\.weight", "backbone.last.weight", _pointwise),
    (r"ft\.last_conv\.bias", "backbone.last.bias", _same),
    (r"ft\.l_(\d+)\.dilated_conv\.weight", r"backbone.layers.\1.dilated_weight", lambda w: w.permute(2, 1, 0)),
    (r"ft\.l_(\d+)\.dilated_conv\.bias", r"backbone.layers.\1.dilated_bias", _same),
    (r"ft\.l_(\d+)\.conv_1x1\.weight", r"backbone.layers.\1.output_weight", lambda w: w[:, :, 0].t()),
    (r"ft\.l_(\d+)\.conv_1x1\.bias", r"backbone.layers.\1.output_bias", _same),
    (r"ft_last_gn\.(weight|bias)", r"backbone.norm.\1", _same),
    (r"conv_classifier\.weight", "frame_branch.weight", _pointwise),
    (r"conv_classifier\.bias", "frame_branch.bias", _same),
    (r"fs_encoder_lstm\.(\w+)", r"segment_branch.encoder.\1", _same),
    (r"fs_encoder_hidden_out\.(weight|bias)", r"segment_branch.initial_hidden.\1", _same),
    (r"fs_encoder_cn_out\.(weight|bias)", r"segment_branch.initial_cell.\1", _same),
    (r"fs_decoder_attention_W1", "segment_branch.attention_keys", _same),
    (r"fs_decoder_attention_l2\.(weight|bias)", r"segment_branch.attention_query.\1", _same),
    (r"fs_decoder_attention_V", "segment_branch.attention_score", _same),
    (r"fs_decoder_embedding\.weight", "segment_branch.embedding.weight", _same),
    (r"fs_decoder_attn_combine\.(weight|bias)", r"segment_branch.combine.\1", _same),
    (r"fs_decoder_lstm\.(\w+)_l0", r"segment_branch.decoder.\1", _same),
    (r"fs_decoder_transcript\.(\d)\.(weight|bias)", r"segment_branch.transcript_head.\1.\2", _same),
    (r"fs_decoder_length\.0\.(weight|bias)", r"segment_branch.length_head.1.\1", _same),
    (r"fs_decoder_length\.2\.(weight|bias)", r"segment_branch.length_head.3.\1", _same),
)
"""Pattern of the published name, our name, and the conversion of the array."""


def from_published(parameters: Mapping[str, Tensor | NDArray[Any]]) -> dict[str, Tensor]:
    """Converts the published program's parameters to a state for `MuConNetwork.load_state_dict`.

    Args:
        parameters: all parameters of a network by name; `UNUSED` ones are ignored.

    Returns:
        Contiguous tensors of the same dtype under our names.

    Raises:
        InputError: one problem per unknown name and per shape that does not fit its layer.
    """
    state: dict[str, Tensor] = {}
    problems: list[Problem] = []
    for name, value in parameters.items():
        if name in UNUSED:
            continue
        for pattern, ours, convert in _RULES:
            match = re.fullmatch(pattern, name)
            if match:
                tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
                try:
                    state[match.expand(ours)] = convert(tensor).contiguous()
                except (IndexError, RuntimeError):
                    shape, expected = list(tensor.shape), "a convolution's weight [out, in, taps]"
                    problems.append(Problem(rule="shape", place=name, value=shape, expected=expected))
                break
        else:
            message = "the published program has no such parameter"
            problems.append(Problem(rule="unknown", place=name, value=name, message=message))
    if problems:
        raise InputError(problems)
    return state


def import_published(path: Path, config: TrainConfig, actions: Sequence[str] | None = None) -> Checkpoint:
    """Imports the authors' published checkpoint (`.trc`) as a model to evaluate, predict with and train further.

    The file is read by torch's weights-only loader, which executes no code from it. Width and number of layers,
    features and actions are read from its tensors; the pooling and the groups of the norm are those of `config`.

    Args:
        path: the file, a saved state of the network.
        config: settings that the file does not contain.
        actions: names of the N actions in the order of their ids; `action_0`, ... by default.

    Raises:
        InputError: another kind of file, another network, another number of actions, or a configuration that does not
            fit.
    """
    state = _read_state(path)
    try:
        ours = from_published(state)
    except InputError as error:
        raise InputError(error.under(path)) from error
    problems = [
        Problem(rule="missing", place=f"{path}: {name}", message="missing parameter")
        for name in _SIZES
        if name not in ours
    ]
    if problems:
        raise InputError(problems)
    channels, dim = ours["backbone.first.weight"].shape
    n_actions = len(ours["frame_branch.bias"])
    n_layers = len({name.split(".")[2] for name in ours if name.startswith("backbone.layers.")})
    if actions is not None and len(actions) != n_actions:
        expected = f"{n_actions} actions, as in {path}"
        raise InputError(Problem(rule="mismatch", place="mapping", value=len(actions), expected=expected))
    vocabulary = Vocabulary(tuple(actions or (f"action_{n}" for n in range(n_actions))))
    config = config.with_values(
        {
            "backbone.channels": channels,
            "backbone.n_layers": n_layers,
            "segment_branch.hidden": len(ours["segment_branch.attention_score"]),
        }
    )
    size = NetworkSize(dim=dim, n_actions=n_actions, max_segments=PUBLISHED_STEPS - 1)
    model = build_model(size, config.backbone, config.segment_branch, seed=config.seed)
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        message = f"the parameters do not fit the network: {' '.join(str(error).split())}"
        raise InputError(Problem(rule="mismatch", place=str(path), message=message)) from error
    return Checkpoint(model.eval(), config, vocabulary, Progress(epoch=config.training.epochs, finished=True))


def _reason(error: Exception) -> str:
    """The first line of torch's message; the others recommend executing the file."""
    lines = str(error).rpartition("WeightsUnpickler error: ")[2].strip().splitlines() or [type(error).__name__]
    return lines[0].partition(". Please use")[0]


def _read_state(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():  # about the pickle protocol of other files
            warnings.simplefilter("ignore", UserWarning)
            state = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        message = f"cannot read saved weights: {_reason(error)}"
        raise InputError(Problem(rule="unreadable", place=str(path), message=message)) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        kind = type(state).__name__
        raise InputError(Problem(rule="type", place=str(path), value=kind, expected="tensors by name"))
    return {str(name): value.float() for name, value in state.items()}

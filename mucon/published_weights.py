"""The parameters of the authors' published program under their own names, as our network."""

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
from mucon.errors import InputError
from mucon.model import NetworkSize, build_model
from mucon.vocabulary import Vocabulary

PUBLISHED_STEPS = 31
"""Most steps of the published program's free running."""
_SIZES = ("backbone.first.weight", "frame_branch.bias", "segment_branch.attention_score")

UNREADABLE = (
    *(OSError, RuntimeError, pickle.UnpicklingError, EOFError, struct.error),
    *(ValueError, LookupError, TypeError, AttributeError, AssertionError),
)
"""What torch's weights-only loader raises on the bytes of other files, as they come."""

UNUSED = ("fs_decoder_attention_l3.weight", "fs_decoder_attention_l3.bias")
"""Parameters that the published program has and never uses."""


def _same(weight: Tensor) -> Tensor:
    return weight


def _pointwise(weight: Tensor) -> Tensor:
    """`[out, in, 1]` -> `[out, in]`, of a convolution of width 1 that is a linear layer here."""
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
"""Its name as a pattern, our name, and how its array becomes ours."""


def from_published(parameters: Mapping[str, Tensor | NDArray[Any]]) -> dict[str, Tensor]:
    """A state for `MuConNetwork.load_state_dict` of parameters under the published program's names.

    Args:
        parameters: by name, all of a network; `UNUSED` ones are left out.

    Returns:
        Contiguous tensors of the same dtype under our names.

    Raises:
        InputError: names that the published program does not have, and shapes that are no convolution's, all told at
            once.
    """
    state: dict[str, Tensor] = {}
    problems = []
    for name, value in parameters.items():
        if name in UNUSED:
            continue
        for pattern, ours, convert in _RULES:
            found = re.fullmatch(pattern, name)
            if found:
                tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
                try:
                    state[found.expand(ours)] = convert(tensor).contiguous()
                except (IndexError, RuntimeError):
                    problems.append(
                        f"{name!r} is a convolution's weight [out, in, taps], not {list(tensor.shape)}: give the state "
                        "of the published network as it is"
                    )
                break
        else:
            problems.append(
                f"{name!r} is no parameter of the published program: give the state of its network, nothing else"
            )
    if problems:
        raise InputError(problems)
    return state


def import_published(path: Path, config: TrainConfig, actions: Sequence[str] | None = None) -> Checkpoint:
    """A model of the authors' published checkpoint (`.trc`), to evaluate, predict and train further with.

    The file is read by torch's weights-only loader: nothing in it is executed. Width and number of layers, features
    and actions come from its tensors. Where the pooling stands and how many groups the norm has do not, they are the
    configuration's.

    Args:
        path: the file, a saved state of the network.
        config: of what the file does not tell.
        actions: names of the N actions in the order of their ids; `action_0`, ... without them.

    Raises:
        InputError: not such a file, another network, another number of actions, or a configuration that does not fit.
    """
    state = _read_state(path)
    ours = from_published(state)
    problems = [f"{name!r} is missing in {path}: give a whole network" for name in _SIZES if name not in ours]
    if problems:
        raise InputError(problems)
    channels, dim = ours["backbone.first.weight"].shape
    n_actions = len(ours["frame_branch.bias"])
    n_layers = len({name.split(".")[2] for name in ours if name.startswith("backbone.layers.")})
    if actions is not None and len(actions) != n_actions:
        raise InputError(f"{path} names {n_actions} actions, the mapping {len(actions)}: give the one of its data set")
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
        raise InputError(f"{path} is no network of the published program ({' '.join(str(error).split())})") from error
    return Checkpoint(model.eval(), config, vocabulary, Progress(epoch=config.training.epochs, finished=True))


def _reason(error: Exception) -> str:
    """One line of torch's many, which go on to advise executing the file."""
    said = str(error).rpartition("WeightsUnpickler error: ")[2].strip().splitlines() or [type(error).__name__]
    return said[0].partition(". Please use")[0]


def _read_state(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():  # of an unknown pickle protocol, where the file is no pickle
            warnings.simplefilter("ignore", UserWarning)
            state = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read as saved weights ({_reason(error)}): give a .trc file") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{path} holds {type(state).__name__}, not tensors by name: give the network's state alone")
    return {str(name): value.float() for name, value in state.items()}

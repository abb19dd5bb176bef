"""The parameters of the authors' published program under their own names, as the state of our network."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mucon.errors import InputError

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
        InputError: names that the published program does not have, all told at once.
    """
    state: dict[str, Tensor] = {}
    unknown = []
    for name, value in parameters.items():
        if name in UNUSED:
            continue
        for pattern, ours, convert in _RULES:
            found = re.fullmatch(pattern, name)
            if found:
                tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
                state[found.expand(ours)] = convert(tensor).contiguous()
                break
        else:
            unknown.append(name)
    if unknown:
        raise InputError(
            f"{name!r} is no parameter of the published program: give the state of its network, nothing else"
            for name in unknown
        )
    return state

"""The methods by name; a method is imported when it is looked up."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mucon.configuration import DEFAULT_METHOD
from mucon.errors import InputError, Problem, nearest

if TYPE_CHECKING:
    from mucon.method import Method

METHODS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        DEFAULT_METHOD: ("mucon.methods.mucon", "MUCON"),
        "ms_tcn": ("mucon.methods.ms_tcn", "MS_TCN"),
        "ms_tcn_pp": ("mucon.methods.ms_tcn", "MS_TCN_PP"),
        "tcfpn": ("mucon.methods.encoder_decoder", "TCFPN"),
        "ed_tcn": ("mucon.methods.encoder_decoder", "ED_TCN"),
        "isba": ("mucon.methods.isba", "ISBA"),
        "frame_mlp": ("mucon.methods.frame_mlp", "FRAME_MLP"),
        "hmm_rnn": ("mucon.methods.hmm_rnn", "HMM_RNN"),
        "ectc": ("mucon.methods.ectc", "ECTC"),
        "nnv": ("mucon.methods.nnv", "NNV"),
        "cdfl": ("mucon.methods.cdfl", "CDFL"),
        "atba": ("mucon.methods.atba", "ATBA"),
        "d3tw": ("mucon.methods.d3tw", "D3TW"),
    }
)
"""Name of each method -> module and attribute; `mucon` first."""


def method_named(name: str) -> Method[Any]:
    """The method with a name.

    Raises:
        InputError: no method has that name.

    >>> method_named("mucon").main
    'full'
    """
    if name not in METHODS:
        message = f"unknown method {name!r}{nearest(name, list(METHODS))}"
        hint = f"methods: {', '.join(METHODS)}"
        raise InputError(Problem(rule="unknown", place="method", value=name, message=message, hint=hint))
    module, attribute = METHODS[name]
    method: Method[Any] = getattr(importlib.import_module(module), attribute)
    return method

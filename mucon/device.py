"""Which device computes."""

from __future__ import annotations

from typing import Literal

import torch

from mucon.errors import InputError
from mucon.machine import cpu_has_bfloat16

Precision = Literal["float32", "bfloat16"]


def usable_precision(asked: Precision, device: torch.device) -> Precision:
    """The precision that is asked for, or float32 where the device has no instructions for bfloat16."""
    if asked == "bfloat16":
        there = torch.cuda.is_bf16_supported() if device.type == "cuda" else cpu_has_bfloat16()
        return "bfloat16" if there else "float32"
    return asked


def choose_device(name: str) -> torch.device:
    """The device of a name: `auto` is the first GPU, or the processor where there is none.

    Raises:
        InputError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"--device is auto, cpu, cuda or cuda:0, not {name!r}: choose one of these") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device is auto, cpu, cuda or cuda:0, not {name!r}: choose one of these")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {name!r} was asked for and torch finds {torch.cuda.device_count()} GPUs here: use --device cpu"
        )
    return device

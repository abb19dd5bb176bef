"""Which device computes."""

from __future__ import annotations

import torch

from mucon.errors import InputError


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

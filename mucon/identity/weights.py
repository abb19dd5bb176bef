"""Digests of weights: equal digests mean equal bits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


def weights_sha256(model: nn.Module) -> str:
    """SHA-256 of all weight tensors in the order of their names; equal digests mean equal bits."""
    return tensors_sha256(model.state_dict())


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors in the order of their names."""
    import torch  # of this module's functions, only those of tensors need it

    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()

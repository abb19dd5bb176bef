"""Random changes of the features of one step, from torch's random generator."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional

from mucon.extensions.config import AugmentationConfig


def augmented(features: Tensor, config: AugmentationConfig) -> Tensor:
    """The features `[T, D]` of a recording, stretched in time to another T and with noise; themselves if both are off.

    What is drawn depends on the seed of torch's generator and, for the noise, on its state. Nothing is read back from
    the device.

    Args:
        features: `[T, D]`.
        config: what changes.
    """
    if config.stretch > 1:
        exponent = random.Random(torch.initial_seed()).uniform(-1, 1)
        n_frames = max(1, round(len(features) * config.stretch**exponent))
        features = functional.interpolate(features.T[None], size=n_frames, mode="linear", align_corners=False)[0].T
    if config.noise > 0:
        features = features + config.noise * features.std(dim=0, correction=0) * torch.randn_like(features)
    return features

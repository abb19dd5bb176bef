"""The published program's masks and their gradients (golden/masks.npz), every key of every case.

Its positions are float32: a start near frame T is off by about one unit in the last place of T, ulp(T), and a ramp
rises by J / l' in a frame, so its values are off by 2 ulp(T) J / l' at short segments of long recordings (1.4e-3 from
exact arithmetic with T = 2100 and l' = 8.4). Where a sample is at the border of two template cells, the same shift
decides which cell's slope is the gradient. The tolerance of 1e-3 is widened by exactly that much.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mucon.config import MaskConfig
from mucon.masks import absolute_lengths, segment_masks
from tests.mucon.parity import golden

INPUTS = ("log_lengths", "T", "cotangent")


def rounding(case: golden.Arrays) -> float:
    """2 ulp(T) J / min l': what float32 positions change in a value."""
    T = float(case["T"])
    return float(2 * np.spacing(np.float32(T)) * MaskConfig().n_samples / case["absolute_lengths"].min())


def compare_setting(case: golden.Arrays, path: str, place: str) -> None:
    shape, overlap, aligned = golden.setting(path)
    config = MaskConfig(shape=shape, overlap=overlap, corner_aligned=aligned, overlap_rule="published")
    T = int(case["T"])
    log_lengths = torch.tensor(case["log_lengths"], requires_grad=True)
    masks = segment_masks(absolute_lengths(log_lengths, T), T, config)
    (masks * torch.tensor(case["cotangent"])).sum().backward()
    allowed = golden.MASK + rounding(case)
    golden.assert_close(masks, case[f"{path}/mask"], 0.0, f"{place}/{path}/mask", floor=allowed)
    gradient = f"{path}/grad_log_lengths"
    golden.assert_close(log_lengths.grad, case[gradient], allowed, f"{place}/{gradient}", floor=1e-4)


@pytest.mark.parity
def test_every_published_mask_and_its_gradient_is_met():
    compared = 0
    for name, case in golden.cases(golden.read("masks.npz")).items():
        lengths = absolute_lengths(torch.tensor(case["log_lengths"]), int(case["T"]))
        golden.assert_close(lengths, case["absolute_lengths"], golden.NETWORK, f"{name}/absolute_lengths")
        compared += 1
        for path in sorted({key.rpartition("/")[0] for key in case if "/" in key}):
            compare_setting(case, path, name)
            compared += 2
    assert compared == golden.count_outputs("masks.npz", INPUTS) > 0

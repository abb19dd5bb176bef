"""The published program's losses and their gradients (golden/losses.npz), every key of every case."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mucon.config import LossConfig, MaskConfig
from mucon.losses import frame_cross_entropy, length_loss, smoothing_loss, supervised_length_loss
from mucon.losses import transcript_loss as transcript_nll
from mucon.model import TeacherForced
from mucon.recipes import published_program
from mucon.training.step import video_losses
from tests.mucon.parity import golden

INPUTS = ("frame_logits", "log_lengths", "transcript", "transcript_log_probs", "true_lengths", "true_labels")
CONSISTENCY = {"flint": "segment", "arithmetic": "frame"}
FLOOR = 1e-6


def mutual_consistency(case: dict[str, Tensor], path: str) -> Tensor:
    """`flint/box/overlap0.0/align_corners_True` through the same function that training calls."""
    kind, _, rest = path.partition("/")
    shape, overlap, aligned = golden.setting(rest)
    mask = MaskConfig(shape=shape, overlap=overlap, corner_aligned=aligned, overlap_rule="published")
    config = LossConfig(normalise="stretched_length", consistency=CONSISTENCY[kind])
    outputs = TeacherForced(
        case["frame_logits"],
        torch.arange(len(case["frame_logits"])),
        case["transcript_log_probs"],
        case["log_lengths"],
    )
    return video_losses(outputs, case["transcript"], mask, config)["mutual_consistency"]


def loss(case: dict[str, Tensor], path: str) -> Tensor:
    logits, log_lengths = case["frame_logits"], case["log_lengths"]
    if path.startswith("mucon/"):
        return mutual_consistency(case, path.removeprefix("mucon/"))
    if path == "smoothing":
        return smoothing_loss(logits, len(logits), rule=published_program().loss.smoothing_rule)
    if path == "length":
        return length_loss(log_lengths)
    if path == "classification":
        return frame_cross_entropy(logits, torch.arange(len(logits)), case["true_labels"])
    if path == "supervised_length":
        return supervised_length_loss(log_lengths, case["true_lengths"], "share")
    assert path == "transcript_nll_sum", f"no loss of this project answers to {path!r}"
    end = torch.tensor([case["transcript_log_probs"].shape[1] - 1])
    return transcript_nll(case["transcript_log_probs"], torch.cat((case["transcript"], end)))


@pytest.mark.parity
def test_every_published_loss_and_its_gradients_are_met():
    compared = 0
    for name, arrays in golden.cases(golden.read("losses.npz")).items():
        outputs = [key for key in arrays if key not in INPUTS]
        for path in [key for key in outputs if "/grad_" not in key]:
            case = {key: torch.tensor(arrays[key]) for key in INPUTS}
            sources = {key: case[key].requires_grad_() for key in ("frame_logits", "log_lengths")}
            value = loss(case, path)
            golden.assert_close(value, arrays[path], golden.LOSS, f"{name}/{path}", floor=FLOOR)
            compared += 1
            for key in [key for key in outputs if key.startswith(f"{path}/grad_")]:
                source = sources[key.rpartition("/grad_")[2]]
                (ours,) = torch.autograd.grad(
                    value, source, retain_graph=True, allow_unused=True, materialize_grads=True
                )
                golden.assert_close(ours, arrays[key], golden.GRADIENT, f"{name}/{key}", floor=FLOOR)
                compared += 1
    assert compared == golden.count_outputs("losses.npz", INPUTS) > 0

"""Whether the gradient of L_mu moves the predicted lengths towards the annotated ones.

Takes runs of the method mucon and an annotated part of a store. A recording with M segments has M predicted log
lengths. One step against the gradient of L_mu moves them. The annotation says where they should move: log true minus
log predicted length. A common factor of all lengths changes nothing, so the means of both directions are taken off.
Prints one JSON line for each run with the cosine of the two directions, mean and standard error over the recordings:

- `masks`: the gradient through the masks alone (as with `loss.detach_length=true`),
- `divisor`: the gradient through the divisor 1/l' alone,
- `both`: their sum.

The loss is that of the run, such as one with weighted segments. `length_correlation` is the correlation of the
predicted and the true log lengths over all segments. A value that too few recordings define is null.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import mucon
from mucon.config import LossConfig, MaskConfig
from mucon.inference import MuConPredictor
from mucon.model.network import MuConNetwork, TeacherForced
from mucon.training.step import video_losses
from mucon.videos import Video, videos_of
from storage import open_store

FEWEST = 3
"""Segments of a recording whose directions are compared: with two, every cosine is 1 or -1."""


def downhill(outputs: TeacherForced, transcript: Tensor, mask: MaskConfig, loss: LossConfig) -> Tensor:
    """Minus the gradient of L_mu in the log lengths `[M]`."""
    log_lengths = outputs.log_lengths.detach().requires_grad_()
    terms = video_losses(outputs._replace(log_lengths=log_lengths), transcript, mask, loss)
    (gradient,) = torch.autograd.grad(terms["mutual_consistency"], log_lengths)
    return -gradient


def cosine(one: Tensor, other: Tensor) -> float:
    """Cosine of two directions `[M]` without their means; nan if one is zero."""
    one, other = one - one.mean(), other - other.mean()
    norm = one.norm() * other.norm()
    return float(one @ other / norm) if norm > 0 else math.nan


@dataclass(frozen=True)
class Found:
    """One recording: the cosine of each gradient, and the log lengths `[M]` without their means."""

    cosines: dict[str, float]
    predicted: Tensor
    true: Tensor


def compared(model: MuConNetwork, video: Video, mask: MaskConfig, loss: LossConfig) -> Found:
    """Compares the gradients of an annotated recording with the direction to its annotation."""
    transcript = torch.tensor(video.transcript)
    with torch.no_grad():
        outputs = model(video.features(), transcript)
    predicted, true = outputs.log_lengths, torch.tensor(video.lengths).log()
    both = downhill(outputs, transcript, mask, replace(loss, detach_length=False))
    masks = downhill(outputs, transcript, mask, replace(loss, detach_length=True))
    gradients = {"masks": masks, "divisor": both - masks, "both": both}
    cosines = {name: cosine(gradient, true - predicted) for name, gradient in gradients.items()}
    return Found(cosines, predicted - predicted.mean(), true - true.mean())


def mean_and_error(values: list[float]) -> list[float | None]:
    """Mean and its standard error, without the values that are not numbers; None where too few are left."""
    known = np.array([value for value in values if not math.isnan(value)])
    mean = round(float(known.mean()), 3) if known.size else None
    return [mean, round(float(known.std(ddof=1) / math.sqrt(known.size)), 3) if known.size > 1 else None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    parser.add_argument("--store", required=True, help="store with frame labels")
    parser.add_argument("--split", default="1", help="split of the store (default: 1)")
    parser.add_argument("--part", default="test", help="part of the split (default: test)")
    options = parser.parse_args()
    annotated = videos_of(open_store(options.store), options.split, options.part)
    videos = [video for video in annotated if video.lengths is not None and len(video.lengths) >= FEWEST]
    if not videos:
        parser.error(f"{options.store}: expected recordings with frame labels and {FEWEST} segments, got none")
    for run in options.runs:
        predictor = mucon.load(run, "cpu").predictor
        if not isinstance(predictor, MuConPredictor):
            parser.error(f"{run}: expected a run of the method mucon, got {predictor.method}")
        model, config = predictor.checkpoint.model, predictor.config
        found = [compared(model, video, config.mask, config.loss) for video in videos]
        names = found[0].cosines
        value = {
            "benchmark": "length gradient",
            "run": str(run),
            "part": options.part,
            "recordings": len(videos),
            **{name: mean_and_error([one.cosines[name] for one in found]) for name in names},
        }
        predicted, true = torch.cat([one.predicted for one in found]), torch.cat([one.true for one in found])
        correlation = cosine(predicted, true)
        value["length_correlation"] = None if math.isnan(correlation) else round(correlation, 3)
        print(json.dumps(value))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

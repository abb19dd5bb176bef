"""The published program's values on random labels (golden/metrics.npz), every key of every case."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mucon.metrics.scores import score
from mucon.segments import Segmentation

FOLDER = Path(os.environ.get("MUCON_PARITY_DIR", Path(__file__).parents[2] / "data" / "parity"))
NAMES = {"mof": ["mof"], "mof_bg": ["mof_without_background"], "matching_score": ["matching_score"]}
for suffix in ("", "_without_background"):
    NAMES |= {key + suffix: [key + suffix] for key in ("iod", "iou", "edit")}
    NAMES["f1" + suffix] = [f"f1_at_{percent}{suffix}" for percent in (10, 25, 50)]
INPUTS = ("target", "prediction")


def percent(key: str) -> float:
    """Edit and F1 are percentages there."""
    return 100.0 if key.startswith(("edit", "f1")) else 1.0


@pytest.mark.parity
def test_every_published_value_is_met():
    golden = np.load(FOLDER / "metrics.npz")
    cases = sorted({key.split("/")[0] for key in golden.files if key.startswith("case")})
    targets = [Segmentation.from_frame_labels(golden[f"{case}/target"]) for case in cases]
    predictions = [Segmentation.from_frame_labels(golden[f"{case}/prediction"]) for case in cases]
    scores = score(targets, predictions, background_ids=(0,))
    sides = {"corpus": scores.values, **dict(zip(cases, scores.per_video, strict=True))}
    outputs = [key for key in golden.files if key.split("/")[1] not in INPUTS]
    compared = 0
    for full_key in outputs:
        case, key = full_key.split("/")
        ours = [sides[case][name] for name in NAMES[key]]
        theirs = np.atleast_1d(golden[full_key]) / percent(key)
        np.testing.assert_allclose(np.array(ours, dtype=float), theirs, rtol=1e-12, atol=0, err_msg=full_key)
        compared += 1
    assert cases
    assert compared == len(golden.files) - len(INPUTS) * len(cases) > 0

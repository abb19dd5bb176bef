"""Predictions of published models with the values of their authors' programs (MUCON_DATA_DIR/metric_reference).

Every metric column there coincides with one of ours: acc = MoF of a recording; tcn_edit = mstcn_edit, tp/fp/fn and
tcn_f1, isba_iod and isba_iou all without background; the matching ratio with background. In the aggregates
mstcn_f1 is pooled as ours is; tcn_f1 is the mean over recordings, and for MERL all tcn columns are of its recordings
put together into one. abs_len_diff is no metric here.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mucon.metrics.scores import Scores, score
from mucon.segments import Segmentation

DATA = os.environ.get("MUCON_DATA_DIR")
FOLDER = Path(DATA or ".") / "metric_reference"
pytestmark = pytest.mark.skipif(DATA is None, reason="MUCON_DATA_DIR is not set")

W = "_without_background"
PERCENTS = (10, 25, 50)
PER_VIDEO = {
    "acc": ("mof", 100.0),
    "acc_no_bg": ("mof" + W, 100.0),
    "tcn_edit": ("edit" + W, 100.0),
    "mstcn_edit": ("edit" + W, 100.0),
    "isba_iod": ("iod" + W, 1.0),
    "isba_iou": ("iou" + W, 1.0),
    "mucon_matching_ratio": ("matching_score", 1.0),
    **{f"tcn_f1@{k}": (f"f1_at_{k}{W}", 100.0) for k in PERCENTS},
    **{f"{kind}@{k}": (f"{kind}_at_{k}{W}", 1.0) for kind in ("tp", "fp", "fn") for k in PERCENTS},
}
POOLED = {
    "mof_pooled": ("mof", 100.0),
    "mof_no_bg_pooled": ("mof" + W, 100.0),
    "mstcn_edit_mean": ("edit" + W, 100.0),
    "isba_iod_mean": ("iod" + W, 1.0),
    "isba_iou_mean": ("iou" + W, 1.0),
    "mucon_matching_mean": ("matching_score", 1.0),
    **{f"mstcn_f1@{k}": (f"f1_at_{k}{W}", 100.0) for k in PERCENTS},
}
AVERAGED = {
    "tcn_acc_video_mean": "mof",
    "tcn_edit": "edit" + W,
    **{f"tcn_f1@{k}": f"f1_at_{k}{W}" for k in PERCENTS},
}
NOT_METRICS = {"run", "bg_class", "video", "videos", "frames", "abs_len_diff"}


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def scored() -> dict[str, tuple[Scores, Scores, list[dict[str, str]]]]:
    """run -> scores of its recordings, scores of MERL's put together, rows of per_video.csv."""
    by_run = defaultdict(list)
    for row in rows("per_video.csv"):
        by_run[row["run"]].append(row)
    result = {}
    for run, videos in by_run.items():
        pairs = np.load(FOLDER / "pairs" / f"{run.replace('/', '__')}.npz")
        background = (int(videos[0]["bg_class"]),) if videos[0]["bg_class"].isdigit() else ()
        true, predicted = ([pairs[f"{side}_{row['video']}"] for row in videos] for side in ("Y", "P"))
        of = Segmentation.from_frame_labels
        apart = score([of(labels) for labels in true], [of(labels) for labels in predicted], background)
        joined = [[of(np.concatenate(side))] for side in (true, predicted)] if run.startswith("MERL") else [[], []]
        result[run] = apart, score(*joined, background), videos
    return result


def test_every_value_of_every_recording_is_met():
    compared = 0
    for run, (scores, _, videos) in scored().items():
        assert set(videos[0]) == set(PER_VIDEO) | NOT_METRICS - {"videos"}
        for row, ours in zip(videos, scores.per_video, strict=True):
            for column, (name, unit) in PER_VIDEO.items():
                assert ours[name] * unit == pytest.approx(float(row[column]), rel=1e-12), (run, row["video"], column)
                compared += 1
    assert compared == len(rows("per_video.csv")) * len(PER_VIDEO) > 0


def test_every_value_over_all_recordings_is_met():
    aggregates = rows("aggregate.csv")
    compared = 0
    for row in aggregates:
        scores, together, _ = scored()[row["run"]]
        for column, (name, unit) in POOLED.items():
            assert scores.values[name] * unit == pytest.approx(float(row[column]), rel=1e-12), (row["run"], column)
            compared += 1
        for column, name in AVERAGED.items():
            per_video = together.per_video if row["run"].startswith("MERL") else scores.per_video
            mean = 100 * float(np.mean([video[name] for video in per_video]))
            assert mean == pytest.approx(float(row[column]), rel=1e-12), (row["run"], column)
            compared += 1
    assert set(aggregates[0]) == set(POOLED) | set(AVERAGED) | NOT_METRICS - {"video", "abs_len_diff"}
    assert compared == len(aggregates) * (len(POOLED) + len(AVERAGED)) > 0

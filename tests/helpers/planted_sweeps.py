"""Sweeps with chosen scores: plans and result files of trials, made without training, Ray or MLflow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mucon.videos import ScoredPart
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.folder import FORMAT_VERSION
from sweeps.service.trials.results_folder import ResultsFolder

EVALUATION = "e" * 16
PREDICTIONS = ("frames", "segments", "full")

Score = Callable[[str, str, int, str], float]
"""Row, split, seed, prediction -> MoF."""


@dataclass(frozen=True)
class Unfinished:
    """A cell without a result.

    Attributes:
        status: last status in its journal.
        reason: reason of that status.
    """

    status: str
    reason: str | None = None


def split_data(n_test: int, part: ScoredPart = "test") -> SplitData:
    held_out = tuple(f"video-{i:02}" for i in range(n_test)) if part == "validation" else ()
    return SplitData(
        fingerprint="f",
        blind={"mof": 0.2, "boundary_error_frames": 30.0},
        blind_alignment={"mof": 0.25, "boundary_error_frames": 20.0},
        ceilings={"16": 0.9},
        commonest="rest & wait",
        commonest_share=0.3,
        n_train=7,
        n_test=n_test,
        validation=held_out,
        validation_groups=("ann", "bo & co") if held_out else (),
    )


def make_sweep(
    results: Path,
    experiment: Experiment,
    score: Score,
    *,
    splits: tuple[str, ...] = ("1",),
    n_seeds: int = 5,
    n_videos: int = 12,
    videos_differ: bool = True,
    unfinished: Mapping[tuple[str, str, int], Unfinished] | None = None,
    part: ScoredPart = "test",
) -> Plan:
    """Writes the trial directories and the plan of a sweep with one table.

    Args:
        results: the results folder.
        experiment: the table.
        score: MoF of each cell; other metrics are derived from it.
        splits: names.
        n_seeds: seeds 1 to n.
        n_videos: test videos of each split.
        videos_differ: whether rows differ in each video, too; otherwise all rows have the same values per video.
        unfinished: (row, split, seed) -> state of a cell without a result.
        part: the scored part of each split.
    """
    results_folder = ResultsFolder.at(results)
    cells = []
    for seed in range(1, n_seeds + 1):
        for split in splits:
            for row in experiment.variants:
                identity = hashlib.sha256(f"{row.name} {split} {seed}".encode()).hexdigest()[:16]
                cell = Cell(variant=row, split=split, seed=seed, identity=identity, evaluation=EVALUATION)
                cells.append(cell)
                folder = results_folder.trial(identity)
                folder.path.mkdir(parents=True)
                state = (unfinished or {}).get((row.name, split, seed))
                if state is not None:
                    record = {"kind": "status", "timestamp": 1, "host": "h", "pid": 1}
                    line = json.dumps({**record, "status": state.status, "reason": state.reason})
                    folder.journal_path.write_text(line + "\n")
                    continue
                by_prediction = {name: score(row.name, split, seed, name) for name in PREDICTIONS}
                result = result_of(cell, by_prediction, n_videos, videos_differ)
                folder.write_training(weights_sha256=result["weights_sha256"], train_seconds=result["train_seconds"])
                folder.write_result(EVALUATION, result)
    plan = Plan(
        name=experiment.name,
        title=experiment.title,
        parts=(Part(experiment=experiment, cells=tuple(cells), pooling=16),),
        splits={split: split_data(n_videos, part) for split in splits},
        results=results_folder,
        store="/data/stores/planted",
        part=part,
    )
    plan.write()
    return plan


def result_of(cell: Cell, mof: Mapping[str, float], n_videos: int, videos_differ: bool) -> dict[str, Any]:
    """A trial's result.json: the given MoF, boundary errors that fall with it, and both for each video."""
    hardness = np.random.default_rng(int(cell.split)).normal(0, 0.05, n_videos)
    hardness -= hardness.mean()
    scores = {name: {"mof": value, "boundary_error_frames": 100 * (1 - value)} for name, value in mof.items()}
    per_video = [
        {
            "id": f"video-{i:02}",
            "n_frames": 100,
            **{
                name: {
                    "mof": (value if videos_differ else 0.5) + float(hard),
                    "boundary_error_frames": 100 * (1 - (value if videos_differ else 0.5) - float(hard)),
                }
                for name, value in mof.items()
            },
        }
        for i, hard in enumerate(hardness)
    ]
    return {
        "format_version": FORMAT_VERSION,
        "first": True,
        "identity": cell.identity,
        "evaluation": cell.evaluation,
        "task": cell.variant.task,
        "scores": scores,
        "undefined": {},
        "per_video": per_video,
        "seconds": {"frames": 0.011, "segments": 0.012, "full": 0.013 + 0.001 * cell.seed},
        "weights_sha256": "0" * 64,
        "train_seconds": 100.0 + cell.seed,
        "evaluate_seconds": 1.5,
    }

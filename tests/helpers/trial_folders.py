"""Trial directories as a sweep writes them, made without training."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sweeps.service.trials.folder import TrialFolder

START = 1_780_000_000_000
EVALUATION = "e" * 16
SCORES = {
    "frames": {"mof": 0.55, "edit": 0.6},
    "segments": {"mof": 0.5, "edit": 0.62},
    "full": {"mof": 0.7, "matching_score": 0.81, "edit": 0.66, "f1_at_10": 0.74, "iod": None},
}


def identity_of(shape: str, overlap: float, seed: int) -> str:
    return hashlib.sha256(f"{shape} {overlap} {seed}".encode()).hexdigest()[:16]


def row_of(shape: str, overlap: float) -> str:
    return f"{shape}, {round(100 * overlap)} %"


def write_trial(
    results: Path,
    *,
    shape: str = "box",
    overlap: float = 0.0,
    seed: int = 1,
    epochs: int = 3,
    status: str = "finished",
    reason: str | None = None,
    extra: dict[str, float] | None = None,
    config: dict[str, Any] | None = None,
) -> TrialFolder:
    """A trial of the mask ablation after some epochs; the process of a `running` one is dead."""
    identity = identity_of(shape, overlap, seed)
    folder = TrialFolder(results / "trials" / identity)
    folder.checkpoint_path.mkdir(parents=True)
    whole = {
        "mask": {"shape": shape, "overlap": overlap},
        "training": {"epochs": epochs, "learning_rate": 0.01, "betas": [0.9, 0.999]},
        "model": {"layers": 11, "pooling": [1, 2, 4, 8]},
        "seed": seed,
        **(config or {}),
    }
    trial = {
        "format_version": 2,
        "identity": identity,
        "evaluation": EVALUATION,
        "method": "mucon",
        "config": whole,
        "differences": {"mask.shape": shape, "mask.overlap": overlap},
        "split": "1",
        "seed": seed,
        "data_fingerprint": "0123456789abcdef" * 4,
        "numerics": 1,
        "store": "/data/stores/tug",
        "part": "test",
        "data": {"dim": 64, "dtype": "float32"},
        "created": "2026-06-01T12:00:00Z",
    }
    folder.trial_path.write_text(json.dumps(trial))
    append(folder, {"kind": "environment", "timestamp": START, **ENVIRONMENT})
    append_status(folder, "running", START + 1)
    for step in range(1, epochs + 1):
        append_epoch(folder, step, seed, extra)
    (folder.checkpoint_path / "weights.safetensors").write_bytes(f"{identity} {epochs}".encode())
    (folder.checkpoint_path / "config.json").write_text(json.dumps(whole))
    if status == "finished":
        finish(folder, seed, epochs)
    elif status != "running":
        append_status(folder, status, START + 1000 * (epochs + 1), reason)
    return folder


ENVIRONMENT = {"host": "node-1", "device": "cpu", "threads": 1, "packages": {"torch": "2.13.0"}, "git_commit": "f" * 40}


def append(folder: TrialFolder | Path, record: dict[str, Any]) -> None:
    folder = folder if isinstance(folder, TrialFolder) else TrialFolder(folder)
    with folder.journal_path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def append_epoch(folder: TrialFolder | Path, step: int, seed: int = 1, extra: dict[str, float] | None = None) -> None:
    metrics = {"loss.total": 3.0 / step + 0.01 * seed, "gradient_norm.total": 1.0 / step, "learning_rate": 0.01}
    record = {"kind": "epoch", "step": step, "timestamp": START + 1000 * step, "metrics": metrics | (extra or {})}
    append(folder, record)


def append_status(folder: TrialFolder | Path, status: str, timestamp: int, reason: str | None = None) -> None:
    record = {"kind": "status", "status": status, "timestamp": timestamp, "reason": reason, "host": "node-1", "pid": 1}
    append(folder, record)


def finish(folder: TrialFolder, seed: int = 1, epochs: int = 3) -> None:
    """Training, first evaluation and final status."""
    predictions = folder.predictions_path(EVALUATION)
    predictions.mkdir(parents=True, exist_ok=True)
    for prediction in SCORES:
        videos = {"video-1": {"transcript": ["reach", "grasp"], "lengths": [3, 4]}}
        (predictions / f"{prediction}.json").write_text(json.dumps({"videos": videos}))
    scores = {
        prediction: {name: None if value is None else value + 0.01 * seed for name, value in values.items()}
        for prediction, values in SCORES.items()
    }
    result = {
        "format_version": 2,
        "identity": folder.identity,
        "evaluation": EVALUATION,
        "first": True,
        "scores": scores,
        "undefined": {"full": {"iod": 1, "mof": 0}},
        "per_video": [],
        "weights_sha256": hashlib.sha256(folder.identity.encode()).hexdigest(),
        "train_seconds": 12.5,
        "evaluate_seconds": 0.5,
    }
    training = {name: result[name] for name in ("format_version", "identity", "weights_sha256", "train_seconds")}
    folder.training_path.write_text(json.dumps(training))
    folder.result_path(EVALUATION).write_text(json.dumps(result))
    append_status(folder, "finished", START + 1000 * (epochs + 1))


def evaluate_later(folder: TrialFolder, evaluation: str, task: str, choices: dict[str, int], mof: float) -> None:
    """A further evaluation of a finished trial, with the records that a worker appends."""
    append_status(folder, "running", START + 20_000)
    result = {"task": task, "choices": choices, "scores": {"full": {"mof": mof, "edit": None}}, "per_video": []}
    seconds = {"seconds": {"full": mof / 10}, "train_seconds": 12.5, "evaluate_seconds": 2.0}
    folder.write_result(evaluation, {**result, **seconds, "weights_sha256": "0" * 64})
    append_status(folder, "finished", START + 21_000)


def write_ablation(results: Path, seeds: int = 1) -> tuple[list[TrialFolder], dict[str, str]]:
    """Six rows of finished trials: their directories, and identity -> row."""
    folders, rows = [], {}
    for seed in range(1, seeds + 1):
        for shape in ("box", "bell", "trapezoid"):
            for overlap in (0.0, 0.1):
                folders.append(write_trial(results, shape=shape, overlap=overlap, seed=seed))
                rows[folders[-1].identity] = row_of(shape, overlap)
    return folders, rows

"""Trial folders written by hand, as a sweep leaves them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

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
) -> Path:
    """A trial of the mask ablation after some epochs; `running` is one whose process is gone."""
    identity = identity_of(shape, overlap, seed)
    folder = results / "trials" / identity
    (folder / "run" / "checkpoint").mkdir(parents=True)
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
        "created": "2026-06-01T12:00:00Z",
    }
    (folder / "trial.json").write_text(json.dumps(trial))
    append(folder, {"kind": "environment", "timestamp": START, **ENVIRONMENT})
    append_status(folder, "running", START + 1)
    for step in range(1, epochs + 1):
        append_epoch(folder, step, seed, extra)
    (folder / "run" / "checkpoint" / "weights.safetensors").write_bytes(f"{identity} {epochs}".encode())
    (folder / "run" / "checkpoint" / "config.json").write_text(json.dumps(whole))
    if status == "finished":
        finish(folder, seed, epochs)
    elif status != "running":
        append_status(folder, status, START + 1000 * (epochs + 1), reason)
    return folder


ENVIRONMENT = {"host": "node-1", "device": "cpu", "threads": 1, "packages": {"torch": "2.13.0"}, "git_commit": "f" * 40}


def append(folder: Path, record: dict[str, Any]) -> None:
    with (folder / "journal.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


def append_epoch(folder: Path, step: int, seed: int = 1, extra: dict[str, float] | None = None) -> None:
    metrics = {"loss.total": 3.0 / step + 0.01 * seed, "gradient_norm.total": 1.0 / step, "learning_rate": 0.01}
    record = {"kind": "epoch", "step": step, "timestamp": START + 1000 * step, "metrics": metrics | (extra or {})}
    append(folder, record)


def append_status(folder: Path, status: str, timestamp: int, reason: str | None = None) -> None:
    record = {"kind": "status", "status": status, "timestamp": timestamp, "reason": reason, "host": "node-1", "pid": 1}
    append(folder, record)


def finish(folder: Path, seed: int = 1, epochs: int = 3) -> None:
    made = folder / "evaluations" / EVALUATION
    (made / "predictions").mkdir(parents=True, exist_ok=True)
    for prediction in SCORES:
        videos = {"video-1": {"transcript": ["reach", "grasp"], "lengths": [3, 4]}}
        (made / "predictions" / f"{prediction}.json").write_text(json.dumps({"videos": videos}))
    scores = {
        prediction: {name: None if value is None else value + 0.01 * seed for name, value in values.items()}
        for prediction, values in SCORES.items()
    }
    result = {
        "format_version": 2,
        "identity": folder.name,
        "evaluation": EVALUATION,
        "first": True,
        "scores": scores,
        "undefined": {"full": {"iod": 1, "mof": 0}},
        "per_video": [],
        "weights_sha256": hashlib.sha256(folder.name.encode()).hexdigest(),
        "train_seconds": 12.5,
        "evaluate_seconds": 0.5,
    }
    training = {name: result[name] for name in ("format_version", "identity", "weights_sha256", "train_seconds")}
    (folder / "training.json").write_text(json.dumps(training))
    (made / "result.json").write_text(json.dumps(result))
    append_status(folder, "finished", START + 1000 * (epochs + 1))


def write_ablation(results: Path, seeds: int = 1) -> tuple[list[Path], dict[str, str]]:
    """Six rows of finished trials: their folders, and identity -> row."""
    folders, rows = [], {}
    for seed in range(1, seeds + 1):
        for shape in ("box", "bell", "trapezoid"):
            for overlap in (0.0, 0.1):
                folders.append(write_trial(results, shape=shape, overlap=overlap, seed=seed))
                rows[folders[-1].name] = row_of(shape, overlap)
    return folders, rows

"""A sweep that takes seconds: a tiny store, a tiny network, two rows; and its command line as a real process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mucon.config import TrainConfig
from storage import StoreWriter, open_store
from sweeps.service.experiment import Trial
from sweeps.service.recordings import absolute, split_data

TINY = {
    "training.epochs": 3,
    "backbone.pool_after": "1,2",
}
"""Settings with which a trial of the tiny store takes about a second."""
SCRIPT = Path(__file__).parents[2] / "sweeps" / "ablation_masks.py"


def make_store(path: Path, *, n_train: int = 6, n_test: int = 3, seed: int = 0) -> Path:
    """Recordings of three actions, 60 to 90 frames of 6 features, one split `1`."""
    random = np.random.default_rng(seed)
    means = random.normal(size=(4, 6))
    with StoreWriter(path, dim=6, dtype="float32", vocabulary=("rest", "pour", "stir", "drink")) as writer:
        for i in range(n_train + n_test):
            transcript = [[0, 1, 2, 0], [0, 2, 3, 0], [0, 1, 3, 0]][i % 3]
            lengths = random.integers(14, 23, size=4).tolist()
            labels = np.repeat(transcript, lengths)
            features = means[labels] + 0.3 * random.normal(size=(len(labels), 6))
            part = "1:train" if i < n_train else "1:test"
            writer.add(
                f"video_{i:02}", features.astype(np.float32), transcript=transcript, lengths=lengths, splits=(part,)
            )
    return path


def make_trial(store: Path, *, seed: int = 1, **settings: Any) -> Trial:
    """A trial of the tiny store; settings are spelt with two underscores for a dot."""
    config = TrainConfig().with_values({**TINY, **{path.replace("__", "."): value for path, value in settings.items()}})
    fingerprint = split_data(open_store(store), "1").fingerprint
    return Trial.of(config.override("seed", seed), split="1", data_fingerprint=fingerprint, store=absolute(store))


def command(store: Path, results: Path, *more: str) -> list[str]:
    """The command line of the mask ablation on the tiny store."""
    settings = [word for path, value in TINY.items() for word in ("--set", f"{path}={value}")]
    line = [sys.executable, str(SCRIPT), "--store", str(store), "--results", str(results), "--seeds", "1"]
    return [*line, "--device", "cpu", *settings, *more]


def environment(**more: str) -> dict[str, str]:
    """The environment of a driver's process, without what concerns other services of the test run."""
    kept = {name: value for name, value in os.environ.items() if not re.match("MLFLOW_|RAY_|TUNE_", name)}
    return {**kept, "COLUMNS": "200", **more}


def run(line: list[str], **more: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command line to its end."""
    return subprocess.run(
        line, capture_output=True, text=True, env=environment(**more), timeout=300, check=False, cwd=SCRIPT.parents[1]
    )


def journals(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Identity -> its journal's records."""
    return {
        path.parent.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(results.glob("trials/*/journal.jsonl"))
    }

"""Sweeps that take seconds: a tiny store, a tiny network, few rows; and their command lines as real processes."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mucon.config import TrainConfig
from storage import StoreWriter, open_store
from storage.remote.addresses import absolute
from sweeps.service.plan.recordings import split_data
from sweeps.service.trials.trial import Trial

ROOT = Path(__file__).parents[2]
MASKS = ROOT / "sweeps" / "ablation_masks.py"
TINY = {"training.epochs": 3, "backbone.pool_after": "1,2"}
"""Settings with which a trial of the tiny store takes about a second."""
OWN_SCRIPT = """
    from sweeps.api import Experiment, Variant, main

    EXPERIMENT = Experiment(
        name="{name}",
        title="A user-defined sweep",
        label_titles=("Row",),
        variants=tuple(Variant(labels=(name,), settings=settings) for name, settings in {rows}.items()),
    )

    if __name__ == "__main__":
        raise SystemExit(main(EXPERIMENT))
"""


def make_store(
    path: Path, *, n_train: int = 6, n_test: int = 3, seed: int = 0, groups: int = 0, with_lengths: bool = True
) -> Path:
    """Recordings of four actions, 56 to 88 frames of 6 features, one split `1`, and groups of neighbours if asked."""
    random = np.random.default_rng(seed)
    means = random.normal(size=(4, 6))
    with StoreWriter(path, dim=6, dtype="float32", vocabulary=("rest", "pour", "stir", "drink")) as writer:
        for i in range(n_train + n_test):
            transcript = [[0, 1, 2, 0], [0, 2, 3, 0], [0, 1, 3, 0]][i % 3]
            lengths = random.integers(14, 23, size=4).tolist()
            labels = np.repeat(transcript, lengths)
            features = means[labels] + 0.3 * random.normal(size=(len(labels), 6))
            writer.add(
                f"video_{i:02}",
                features.astype(np.float32),
                transcript=transcript,
                lengths=lengths if with_lengths else None,
                splits=("1:train" if i < n_train else "1:test",),
                group=f"subject_{i * groups // n_train}" if groups else None,
            )
    return path


def make_trial(store: Path, *, seed: int = 1, **settings: Any) -> Trial:
    """A trial of the tiny store; two underscores in the name of a setting stand for a dot."""
    config = TrainConfig().with_values({**TINY, **{path.replace("__", "."): value for path, value in settings.items()}})
    fingerprint = split_data(open_store(store), "1").fingerprint
    return Trial.of(config.override("seed", seed), split="1", data_fingerprint=fingerprint, store=absolute(store))


def own_script(folder: Path, name: str, rows: dict[str, dict[str, object]]) -> Path:
    """Writes the script of a user-defined sweep.

    Args:
        folder: where the script is written.
        name: name of the sweep.
        rows: row -> settings.
    """
    path = folder / f"sweep_{name}.py"
    path.write_text(textwrap.dedent(OWN_SCRIPT).format(name=name, rows=rows))
    return path


def command(script: Path, store: Path, results: Path, *more: str) -> list[str]:
    """A sweep's command line on the tiny store, one seed, with a tracking database for all tests of the store."""
    settings = [word for path, value in TINY.items() for word in ("--set", f"{path}={value}")]
    line = [sys.executable, str(script), "--store", str(store), "--results", str(results), "--seeds", "1"]
    line += ["--checkpoint-every", "0"]  # a trial is too short for one by time
    return [*line, "--device", "cpu", "--tracking-uri", f"sqlite:///{store.parent / 'mlflow.db'}", *settings, *more]


def untracked(line: list[str]) -> list[str]:
    """The command line without a tracking database, whose client takes seconds to import."""
    at = line.index("--tracking-uri")
    return [*line[:at], *line[at + 2 :], "--tracking", "off"]


def environment(**more: str) -> dict[str, str]:
    """The environment of a driver's process, without variables of other services of the test run."""
    kept = {name: value for name, value in os.environ.items() if not re.match("MLFLOW_|RAY_|TUNE_|MUCON_FAIL", name)}
    return {**kept, "COLUMNS": "200", **more}


def run(line: list[str], **more: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command line to its end."""
    return subprocess.run(
        line, capture_output=True, text=True, env=environment(**more), timeout=300, check=False, cwd=ROOT
    )


def report_without(results: Path, name: str, *modules: str) -> None:
    """Runs `mucon-sweeps report` in a process of its own, which must import none of some modules."""
    code = (
        "import sys\nfrom sweeps.service.cli import main\n"
        f"status = main(None, ['report', {name!r}, '--results', {str(results)!r}])\n"
        f"print(status, set({modules!r}) & set(sys.modules))"
    )
    done = run([sys.executable, "-c", code])
    assert done.stdout.splitlines()[-1] == "0 set()", done.stderr


@contextlib.contextmanager
def started(line: list[str], log: Path, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A command line in its own process group, as a shell starts it; at the end the group is killed."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            line, stdout=file, stderr=file, env=environment(**more), cwd=ROOT, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(condition: Callable[[], bool], seconds: float = 240) -> None:
    """Polls a condition with little of a core's time; fails after a time that only a hanging program needs."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < deadline, "timeout"
        time.sleep(max(0.05, 10 * (now - began)))


def journals(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Identity -> records of its journal; an incomplete last line is left out."""
    return {
        path.parent.name: [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        for path in sorted(results.glob("trials/*/journal.jsonl"))
    }


def epochs(results: Path) -> dict[str, list[int]]:
    """Identity -> the epochs in its journal, in the journal's order."""
    return {
        identity: [record["step"] for record in records if record["kind"] == "epoch"]
        for identity, records in journals(results).items()
    }


def statuses(results: Path) -> dict[str, list[str]]:
    """Identity -> the states in its journal."""
    return {
        identity: [record["status"] for record in records if record["kind"] == "status"]
        for identity, records in journals(results).items()
    }


def weights(results: Path) -> dict[str, str]:
    """Identity -> sha256 of the weights in its result."""
    paths = sorted(results.glob("trials/*/training.json"))
    return {path.parent.name: json.loads(path.read_text())["weights_sha256"] for path in paths}

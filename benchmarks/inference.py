"""Predictions of one recording of 2,100 frames and 2,048 features, with the network of the paper and 48 actions.

Each prediction is timed from a `.npy` file and from a mapped store, with torch and with onnxruntime, in one thread. The
reference of `full` is `segments`, that of onnxruntime is torch, that of a store is the `.npy` file. The time to the
first prediction is that of a new process, from its start to its end. Many recordings are predicted one per core at a
time, as `mucon predict` does, against one at a time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import compare, record, seconds

import mucon
from mucon.checkpoint import Checkpoint, Progress, saved_of
from mucon.config import TrainConfig
from mucon.device import usable_cpus
from mucon.export.folder import write
from mucon.export.onnx_files import write_onnx
from mucon.export.runner import load_runner
from mucon.model import NetworkSize, build_model
from mucon.vocabulary import Vocabulary
from storage import StoreWriter, open_store

FRAMES, DIM, ACTIONS, SEGMENTS = 2100, 2048, 48, 12
PAIRS, COLD = 15, 5
MANY, MANY_PAIRS = 16, 5
PREDICTIONS = ("frames", "segments", "full")
FIRST = {
    "torch": "import sys, mucon; mucon.load(sys.argv[1], 'cpu').predict(sys.argv[2])",
    "onnx": (
        "import sys, numpy; from mucon.export.runner import load_runner; "
        "load_runner(sys.argv[1]).predict(numpy.load(sys.argv[2]))"
    ),
}


def export(folder: Path) -> None:
    """An exported network with fresh weights that names `SEGMENTS` segments."""
    config = TrainConfig()
    size = NetworkSize(dim=DIM, n_actions=ACTIONS, max_segments=SEGMENTS)
    model = build_model(size, config.backbone, config.segment_branch, seed=1).eval()
    with torch.no_grad():
        model.segment_branch.transcript_head[-1].bias[ACTIONS] = -100.0  # until the limit of segments
    vocabulary = Vocabulary(tuple(f"action_{n}" for n in range(ACTIONS)))
    saved = saved_of(Checkpoint(model, config, vocabulary, Progress(finished=True)))
    write(folder, {"run": saved}, name="benchmark", scores=lambda _: [], more=[write_onnx])


def write_features(folder: Path) -> None:
    features = np.random.default_rng(0).standard_normal((FRAMES, DIM), dtype=np.float32)
    np.save(folder / "one.npy", features)
    with StoreWriter(folder / "store", dim=DIM, dtype="float32", vocabulary=["action"]) as writer:
        writer.add("one", features, transcript=[0], lengths=[FRAMES])


def compare_jobs(model: mucon.Model, folder: Path, case: str) -> None:
    """Times several recordings at a time, with torch."""
    paths = [folder / f"{number}.npy" for number in range(MANY)]
    for path in paths:
        path.symlink_to("one.npy")

    def predict(jobs: int) -> Callable[[], object]:
        return lambda: [outcome.segments for outcome in model.predict_many(paths, jobs=jobs)]

    cores = usable_cpus()
    compare(
        "inference, several recordings at a time",
        f"{case} full, {MANY} recordings, {cores} at a time",
        predict(cores),
        predict(1),
        of="one at a time",
        n=MANY_PAIRS,
        threads=cores,
    )


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(folder / "model")
        write_features(folder)
        model, runner = mucon.load(folder / "model", "cpu"), load_runner(folder / "model")
        store = open_store(folder / "store")
        sources: dict[str, Callable[[], np.ndarray]] = {
            "npy": lambda: np.load(folder / "one.npy"),
            "store": lambda: store.features("one"),
        }
        engines = {"torch": model.predict, "onnx": runner.predict}

        def call(engine: str, source: str, prediction: str) -> Callable[[], object]:
            return lambda: engines[engine](sources[source](), prediction)

        case = f"T={FRAMES} D={DIM} M={SEGMENTS}"
        for engine in engines:
            for prediction in PREDICTIONS:
                ours, reference = (call(engine, source, prediction) for source in ("store", "npy"))
                of = f"the same from a .npy file ({engine})"
                compare("inference, from a store", f"{case} {prediction} {engine}", ours, reference, of=of, n=PAIRS)
            ours, reference = (call(engine, "npy", prediction) for prediction in ("full", "segments"))
            compare("inference, full", f"{case} {engine}", ours, reference, of="segments", n=PAIRS)
        for prediction in PREDICTIONS:
            ours, reference = (call(engine, "npy", prediction) for engine in ("onnx", "torch"))
            compare("inference, onnxruntime", f"{case} {prediction}", ours, reference, of="torch", n=PAIRS)
        compare_jobs(model, folder, case)
        commands = {
            engine: [sys.executable, "-c", code, str(folder / "model"), str(folder / "one.npy")]
            for engine, code in FIRST.items()
        }
        starts = {engine: (lambda words=words: subprocess.run(words, check=True)) for engine, words in commands.items()}
        for start in starts.values():
            start()
        pairs = [(seconds(starts["onnx"]), seconds(starts["torch"])) for _ in range(COLD)]
        record("inference, first prediction of a process", f"{case} full, onnxruntime", pairs, of="torch")


if __name__ == "__main__":
    main()

"""An exported model in an environment without the packages of sweeps and stores."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.export.folder import finished, write
from mucon.export.onnx_files import write_onnx
from mucon.inference import MuConPredictor, predict
from mucon.methods import method_named
from mucon.training import train
from tests.helpers.environments import make_environment
from tests.helpers.factories import VOCABULARY, small_config, small_videos

pytest.importorskip("onnxruntime")

NEEDED = ("torch", "numpy", "numba", "scipy", "safetensors", "rich", "pyyaml", "onnxruntime")
FORBIDDEN = ("ray", "mlflow", "optuna", "pyarrow", "sweeps", "matplotlib", "onnx", "pandas")
N_RECORDINGS = 200
CODE = """
import importlib.util, sys
import numpy as np
import mucon
from mucon.export.runner import load_runner

found = [name for name in {forbidden} if importlib.util.find_spec(name) is not None]
assert not found, found
folder, data = sys.argv[1:]
model, runner, data = mucon.load(folder, "cpu"), load_runner(folder), np.load(data)
n_frames = 0
for i in range({n}):
    expected = model.vocabulary.names(data[f"labels_{{i}}"])
    for found in (model.predict(data[f"features_{{i}}"]), runner.predict(data[f"features_{{i}}"])):
        assert list(found.labels) == list(expected), (i, type(found))
    n_frames += len(expected)
print(n_frames)
"""


def test_a_model_predicts_in_a_clean_environment_what_it_predicted_after_its_training(tmp_path: Path):
    train(small_config(training__epochs=6), small_videos(8), VOCABULARY, folder=tmp_path / "run", device="cpu")
    trained = method_named("mucon").load(tmp_path / "run" / "checkpoint")
    assert isinstance(trained, MuConPredictor)
    random = np.random.default_rng(0)
    lengths = [*range(1, 40), *random.integers(40, 700, size=N_RECORDINGS - 39).tolist()]
    data: dict[str, np.ndarray] = {}
    for i, T in enumerate(lengths):
        video = small_videos(1, seed=i)[0].read()
        data[f"features_{i}"] = np.resize(video, (T, video.shape[1])) + 0.2 * random.normal(size=(T, video.shape[1]))
    for i in range(N_RECORDINGS):
        data[f"features_{i}"] = data[f"features_{i}"].astype(np.float32)
        found = predict(trained.checkpoint, torch.from_numpy(data[f"features_{i}"]), predictions=("full",))
        data[f"labels_{i}"] = found.segmentations["full"].to_frame_labels()
    np.savez(tmp_path / "data.npz", **data)
    folder = tmp_path / "model"
    trainings = {"run": finished(tmp_path / "run" / "checkpoint")}
    write(folder, trainings, name="a model", scores=lambda _: [], more=[write_onnx])

    python = make_environment(tmp_path / "environment", NEEDED)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = CODE.format(forbidden=FORBIDDEN, n=N_RECORDINGS)
    words = [python, "-c", code, folder, tmp_path / "data.npz"]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(len(data[f"labels_{i}"]) for i in range(N_RECORDINGS)) > 10_000

    np.save(tmp_path / "one.npy", data["features_50"])
    words = [python, "-m", "mucon", "predict", folder, "one.npy"]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(data['features_50'])} frames" in done.stdout

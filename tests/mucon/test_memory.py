"""A recording of 71,000 frames of 400 features trains and is predicted within 4 GB, in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path

import numpy as np

from mucon import checkpoint, recipes
from mucon.inference import predict
from mucon.device import peak_memory
from mucon.training import train
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

T, D, M = 71_000, 400, 25
features = np.random.default_rng(1).standard_normal((T, D), dtype=np.float32)
video = Video.from_arrays("long", features, [m % 10 for m in range(M)], [T // M] * M)
folder = Path(sys.argv[1])
config = recipes.breakfast().with_values({"training.epochs": 1, "training.labelled": 1.0})
train(config, [video], Vocabulary(tuple("abcdefghij")), folder=folder, device="cpu")
found = predict(checkpoint.load(folder / "checkpoint"), video.features())
for segmentation in found.segmentations.values():
    assert segmentation.n_frames in (0, T)
print(peak_memory())
"""


def test_a_recording_of_71000_frames_trains_and_is_predicted_within_4_gb(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run")], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout.split()[-1])
    assert peak < 4 * 10**9, f"{peak / 1e9:.2f} GB"

"""A run that is killed while it trains on its own labels resumes with them to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from mucon import checkpoint as checkpoints
from tests.mucon.training.test_loop import digest, train_small
from tests.mucon.training.test_self_training import CONFIG, N_VIDEOS

ROOT = Path(__file__).parents[2]
TRAIN = """
import sys
from pathlib import Path
from tests.mucon.training.test_loop import train_small
from tests.mucon.training.test_self_training import CONFIG
train_small(Path(sys.argv[1]), CONFIG, checkpoint_seconds=1e-9)
"""


def test_a_run_killed_within_an_epoch_of_self_training_resumes_to_the_same_bits(tmp_path: Path):
    """The checkpoint before the kill is within the epoch, whose first weights are gone."""
    train_small(tmp_path / "whole", CONFIG)
    step = 2 * N_VIDEOS + 2
    environment = {**os.environ, "MUCON_FAILPOINT": f"training.step:{step}:kill", "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-c", TRAIN, str(tmp_path / "run")]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    progress = checkpoints.load(tmp_path / "run" / "checkpoint").progress
    assert (progress.epoch, progress.step_in_epoch) == (2, 1)
    train_small(tmp_path / "run", CONFIG)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")

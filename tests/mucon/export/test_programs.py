"""Programs of torch.export: the same labels as the network they were traced from, at every length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mucon
from mucon.checkpoint import Checkpoint
from mucon.export.programs import load_programs, write_programs
from tests.helpers.exported import changed, export, features, frame_log_probs, network
from tests.helpers.refusals import refused

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 17, 33, 65, 1000, 10_000)


@pytest.mark.parametrize(
    "members",
    [
        lambda: [network(3)],
        lambda: [network(seed, backbone__upsampling="stride", backbone__kind="dual_dilated") for seed in (1, 2)],
    ],
    ids=["one", "ensemble"],
)
def test_loaded_programs_have_the_labels_of_torch_at_every_length(
    members: Callable[[], list[Checkpoint]], tmp_path: Path
):
    folder = export(tmp_path / "model", members(), more=[write_programs])
    runner, model = load_programs(folder), mucon.load(folder, "cpu")
    for T in LENGTHS if len(members()) == 1 else LENGTHS[:9]:
        given = features(T, seed=T)
        ours, theirs = runner.log_probs(given.numpy()), frame_log_probs(model.predictor, given).numpy()
        np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=0)
        for name in model.predictions:
            assert runner.predict(given.numpy(), name).labels == model.predict(given, name).labels
    changed(folder / "programs" / "frames.pt2")
    with refused("damaged", "frames.pt2"):
        load_programs(folder)


def test_a_folder_without_programs_is_refused(tmp_path: Path):
    folder = export(tmp_path / "model", [network(3)])
    with refused("missing", str(folder)):
        load_programs(folder)

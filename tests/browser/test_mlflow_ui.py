from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.track.tracker import Tracker
from tests.browser.chromium import Chromium
from tests.helpers.services import MLflowServer, need
from tests.helpers.trial_folders import write_ablation

pytestmark = [pytest.mark.browser, pytest.mark.service]


@pytest.fixture(scope="module")
def shown(mlflow_server: MLflowServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of a server that shows a sweep."""
    need(Chromium.is_installed(), "chromium with chromedriver")
    folder = tmp_path_factory.mktemp("shown")
    folders, rows = write_ablation(folder)
    table = folder / "table.md"
    table.write_text("| mask | MoF |\n|---|---|\n| transcript prior, equal lengths | 41.2 |\n")
    sweep = SweepInfo(name="ablation_masks", title="Masks and overlap", command="python sweeps/x.py", config={})
    with Tracker(mlflow_server.uri, "browser", sweep, rows) as tracker:
        assert tracker.finish(folders, {"table": table}).complete
    return mlflow_server.uri


def test_a_user_finds_the_sweep_its_trials_their_curves_and_what_differs_and_what_is_absent_fails(
    shown: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.browser.mlflow_ui",
        "--tracking-uri",
        shown,
        "--experiment",
        "browser",
        "--out",
        str(tmp_path),
    ]
    there = ["Masks and overlap", "transcript prior, equal lengths", "full.mof", "mask.shape"]
    said = subprocess.run(
        [*command, "--expect", *there, "a row that is not there"], capture_output=True, text=True, check=False
    )
    assert said.stderr == "no page of browser shows 'a row that is not there'\n"
    assert said.returncode == 1
    pictures = {path.name: path.read_bytes()[:8] for path in tmp_path.glob("*.png")}
    pages = ("runs", "scores", "trial", "charts", "artifacts", "sweep", "compare")
    assert pictures == {f"{page}.png": b"\x89PNG\r\n\x1a\n" for page in pages}

"""The MLflow pages of a tracked sweep show what users look for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.tables.baselines import BLIND
from sweeps.service.track.tracker import Tracker
from sweeps.service.trials.results_folder import ResultsFolder
from tests.browser.chromium import Chromium, Missing
from tests.browser.mlflow_ui import Pages
from tests.helpers.services import MLflowServer, need
from tests.helpers.trial_folders import write_ablation

pytestmark = [pytest.mark.browser, pytest.mark.service]


@pytest.fixture(scope="module")
def shown(mlflow_server: MLflowServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of a server with a tracked sweep."""
    need(Chromium.is_installed(), "chromium with chromedriver")
    results = ResultsFolder(tmp_path_factory.mktemp("shown"))
    _, rows = write_ablation(results.path)
    table = results.path / "table.md"
    table.write_text(f"| mask | MoF |\n|---|---|\n| {BLIND} | 41.2 |\n")
    labels = {row: dict(zip(("Shape", "Overlap"), row.split(", "), strict=True)) for row in rows.values()}
    sweep = SweepInfo(
        name="ablation_masks", title="Masks and overlap", command="python sweeps/x.py", config={}, labels=labels
    )
    with Tracker(mlflow_server.uri, "browser", sweep, rows) as tracker:
        assert tracker.finish([results.trial(identity) for identity in rows], {"table": table}).complete
    return mlflow_server.uri


def test_a_user_finds_the_sweep_its_trials_curves_and_differences_and_a_missing_text_fails(
    shown: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.browser.mlflow_ui", "--tracking-uri", shown, "--experiment", "browser"]
    texts = [
        "Masks and overlap",
        BLIND,
        "final_test/full/mof",
        "mask.shape",
        "Overlap",
        "features [frames, 64]",
        "absent row",
    ]
    command += ["--out", str(tmp_path), "--expect", *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert "missing 'absent row'" in line
    assert done.returncode == 1
    pictures = {path.name: path.read_bytes()[:8] for path in tmp_path.glob("*.png")}
    pages = ("runs", "scores", "trial", "data", "charts", "artifacts", "sweep", "compare")
    assert pictures == {f"{page}.png": b"\x89PNG\r\n\x1a\n" for page in pages}


def test_a_name_that_a_plot_lacks_fails(shown: str, tmp_path: Path) -> None:
    with Chromium() as browser:
        pages = Pages(shown, "browser", None, browser, tmp_path)
        pages.names.append("s9 absent")
        with pytest.raises(Missing, match="mof: missing 's9 absent'"):
            pages.scores()
        pages.trials[0]["data"]["params"].append({"key": "Absent", "value": "1"})
        pages.trials[1]["data"]["params"].append({"key": "Absent", "value": "2"})
        with pytest.raises(Missing, match=r"parallel coordinates: missing 'Absent'$"):
            pages.compare()

"""Shell scripts parse, and slurm.sbatch agrees with the code about names, times and paths."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

from mucon.device import CUBLAS_WORKSPACE
from mucon.errors import EXIT_INTERRUPTED
from sweeps.service.run.executor.engine import STOP_SECONDS
from sweeps.service.run.executor.ray_environment import MAX_RAY_FOLDER
from sweeps.service.run.resources import MAX_CONCURRENT
from sweeps.service.trials.lease import LEASE_SECONDS
from tests.sweeps import small

SLURM = small.ROOT / "sweeps" / "clusters" / "slurm.sbatch"
TEXT = SLURM.read_text(encoding="utf-8")
DIRECTIVES = re.findall(r"^#SBATCH (--[\w-]+)=?(.*)$", TEXT, flags=re.MULTILINE)
SHELLS = [small.ROOT / ".ci" / "run", SLURM, *sorted((small.ROOT / "tests" / "helpers" / "slurm").iterdir())]


@pytest.mark.parametrize("path", SHELLS, ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_the_first_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text
    parsed = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert (parsed.returncode, parsed.stderr) == (0, "")


def test_the_time_between_signal_and_limit_covers_the_stop_of_the_trials() -> None:
    (signal,) = (value for name, value in DIRECTIVES if name == "--signal")
    seconds = re.fullmatch(r"B:USR1@(\d+)", signal)
    assert seconds is not None
    assert float(seconds[1]) > STOP_SECONDS + LEASE_SECONDS + 60
    assert {("--requeue", ""), ("--open-mode", "append"), ("--ntasks-per-node", "1")} <= {*DIRECTIVES}
    assert f"--signal=B:USR1@{seconds[1]}" in (small.ROOT / "docs" / "clusters" / "slurm.md").read_text(
        encoding="utf-8"
    )


def test_times_statuses_and_variables_are_those_of_the_code() -> None:
    assert f"readonly LEASE_SECONDS={LEASE_SECONDS:g} " in TEXT
    assert {*re.findall(r"status [!=]= (\d+)", TEXT)} == {str(EXIT_INTERRUPTED)}
    assert f"export {MAX_CONCURRENT}" in TEXT
    assert f":-{CUBLAS_WORKSPACE}}}" in TEXT
    known = {*re.findall(r"\bMUCON_\w+", TEXT)} - {MAX_CONCURRENT}
    own = {"MUCON_VENV", "MUCON_JOBS", "MUCON_JOB"}
    assert known == own
    described = (small.ROOT / "docs" / "clusters" / "slurm.md").read_text(encoding="utf-8")
    assert all(name in described for name in own - {"MUCON_JOB"})
    assert len(os.fsencode("/tmp/ray-XXXXXX/ray")) <= MAX_RAY_FOLDER
    assert 'mktemp -d "${RAY_TMPDIR:-/tmp}/ray-XXXXXX"' in TEXT
    assert "${MUCON_VENV:=$PWD/.venv}/bin" in TEXT
    assert re.findall(r"MOST_DEATHS=(\d+) ", TEXT) == ["3"]  # "three times" of the page
    (longest,) = re.findall(r"`RAY_TMPDIR` names \(at most (\d+) bytes\)", described)
    assert int(longest) + len("/ray-XXXXXX/ray") <= MAX_RAY_FOLDER


def test_ray_has_the_options_and_variables_that_the_script_uses() -> None:
    found = importlib.util.find_spec("ray")  # is not imported here: it reads its environment then
    assert found is not None
    assert found.origin is not None
    scripts = Path(found.origin).parent / "scripts"
    texts = [(scripts / name).read_text(encoding="utf-8") for name in ("scripts.py", "symmetric_run.py")]
    known = {option for text in texts for option in re.findall(r'^    "(--[\w-]+)"', text, flags=re.MULTILINE)}
    (line,) = re.findall(r"ray symmetric-run (.*?)-- bash", TEXT.replace("\\\n", " "), flags=re.DOTALL)
    used = {*re.findall(r"(--[\w-]+)", line)}
    assert "--num-gpus" in used
    assert used <= known
    assert "RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT" in texts[1]
    (patience,) = re.findall(r"RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=(\d+)", TEXT)
    assert int(patience) >= 120
    assert "RAY_USAGE_STATS_ENABLED=0" in TEXT
    assert "--kill-on-bad-exit=0" in TEXT, "a node that is lost does not end the others"
    assert {"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"} <= {*re.findall(r"\bRAY_\w+", TEXT)}


def test_a_job_without_a_command_is_refused() -> None:
    ran = subprocess.run(["bash", str(SLURM)], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1

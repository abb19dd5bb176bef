"""A results file is the earlier one or a whole one: after a kill, and with two processes that write it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from sweeps.service.exchange.rebuilt import rebuild
from tests.helpers.planted_pages import EXPERIMENT
from tests.helpers.planted_sweeps import make_sweep
from tests.sweeps import small


def test_a_killed_export_leaves_the_earlier_file_and_two_at_a_time_leave_a_whole_one(tmp_path: Path) -> None:
    plan = make_sweep(tmp_path / "results", EXPERIMENT, lambda *_: 0.5, n_seeds=1)
    file = tmp_path / "sweep.parquet"
    file.write_bytes(b"earlier")
    program = "import sys; from sweeps.service.cli import main; sys.exit(main())"
    line = [sys.executable, "-c", program, "export-results", plan.name, "--to", str(file)]
    line += ["--results", str(plan.results.path)]
    killed = small.run(line, MUCON_FAILPOINT="sweeps.exchange.written:1:kill")
    assert killed.returncode == -signal.SIGKILL
    assert file.read_bytes() == b"earlier"
    assert len(list(tmp_path.glob(".*"))) == 1
    writers = [subprocess.Popen(line, env=small.environment(), cwd=small.ROOT) for _ in range(2)]
    assert [writer.wait(300) for writer in writers] == [3, 3], "planted trials have no predictions"
    assert not list(tmp_path.glob(".*")), "the next export removes what a kill has left"
    assert rebuild(file, with_figures=True).standing.plan.name == plan.name

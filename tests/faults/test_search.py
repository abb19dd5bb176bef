"""A search whose driver is killed twice: the same study as that of an undisturbed one, and its last step."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.search.points import read_history
from tests.sweeps import small

pytestmark = pytest.mark.service

FILE = """
title: Rate and masks
set: {training.epochs: 3, backbone.pool_after: [1, 2]}
search:
  space:
    training.learning_rate: {loguniform: [0.003, 0.1]}
    mask.shape: [box, bell]
  trials: 3
  best: 1
  fresh_seeds: 2
seeds: 2
"""


def test_a_search_that_is_killed_twice_ends_as_an_undisturbed_one_and_trains_nothing_twice(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = tmp_path / "mine.yaml", tmp_path / "results"
    file.write_text(FILE)
    words = ["run", str(file), "--store", str(tiny_store), "--results", str(results), "--tracking", "off"]
    words += ["--device", "cpu", "--max-concurrent", "1"]
    line = [sys.executable, "-m", "sweeps", *words]
    killed = small.run(line, MUCON_FAILPOINT="fence.study.journal:3:kill")
    assert killed.returncode == -signal.SIGKILL
    with small.started(line, tmp_path / "log") as process:
        small.wait_until(lambda: bool(small.weights(results)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    final = results / "sweeps" / "mine_final"
    with small.started(line, tmp_path / "log") as process:
        small.wait_until(lambda: (final / "plan.json").exists())
        assert main(arguments=["stop", "mine", "--results", str(results)]) == 0
        assert process.wait(60) == 130
    assert not read_history(results / "sweeps" / "mine").fresh
    assert main(None, words) == 0
    printed = capsys.readouterr().out
    assert "mine_final" in printed
    states = small.statuses(results)
    assert all(one.count("finished") == 1 for one in states.values())

    trained = small.weights(results)
    assert main(None, [*words, "--name", "calm"]) == 0  # every training is known
    assert small.weights(results) == trained
    calm, mine = (read_history(results / "sweeps" / name) for name in ("calm", "mine"))
    assert (calm.records, calm.fresh, calm.best) == (mine.records, mine.fresh, mine.best)
    assert {seed for scores in mine.fresh.values() for seed in scores} == {3, 4}
    for name, part in (("mine", "validation"), ("mine_final", "test")):
        assert json.loads((results / "sweeps" / name / "plan.json").read_text())["part"] == part
    suffixes = {path.suffix for path in (results / "sweeps" / "mine").glob("mine_optimism.*")}
    assert suffixes == {".md", ".csv", ".tex"}
    assert (results / "sweeps" / "mine" / "mine_search.html").exists()

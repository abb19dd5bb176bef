"""A search whose driver is killed twice: the same study as that of an undisturbed one, and its last step."""

import json
import os
import random
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


Outcome = tuple[dict[str, object], dict[str, str]]


def command(file: Path, store: Path, results: Path) -> list[str]:
    line = ["run", str(file), "--store", str(store), "--results", str(results), "--tracking", "off"]
    return [*line, "--device", "cpu", "--max-concurrent", "1"]


def outcome(results: Path) -> Outcome:
    """Points, scores, choice and fresh scores of the search, and the weights of all its trainings."""
    return json.loads((results / "sweeps" / "mine" / "search.json").read_text()), small.weights(results)


@pytest.fixture(scope="module")
def undisturbed(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A search that nobody disturbs, in a results folder of its own, so that it trains everything."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "mine.yaml").write_text(FILE)
    assert main(None, command(folder / "mine.yaml", tiny_store, folder / "results")) == 0
    return outcome(folder / "results")


@pytest.mark.repeated(ci=1, soak=20)
def test_a_search_that_is_killed_twice_and_stopped_ends_as_an_undisturbed_one_and_trains_nothing_twice(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], undisturbed: Outcome, repetition: int
) -> None:
    file, results = tmp_path / "mine.yaml", tmp_path / "results"
    file.write_text(FILE)
    words = command(file, tiny_store, results)
    line = [sys.executable, "-m", "sweeps", *words]
    chosen = random.Random(repetition)
    call, n_trained = chosen.randint(2, 5), chosen.randint(1, 3)
    killed = small.run(line, MUCON_FAILPOINT=f"fence.study.journal:{call}:kill")
    assert killed.returncode == -signal.SIGKILL
    with small.started(line, tmp_path / "log") as process:
        small.wait_until(lambda: len(small.weights(results)) >= n_trained)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    final = results / "sweeps" / "mine_final"
    with small.started(line, tmp_path / "log") as process:
        small.wait_until(lambda: (final / "plan.json").exists())
        assert main(arguments=["stop", "mine", "--results", str(results)]) == 0
        assert process.wait(60) == 130
    assert not read_history(results / "sweeps" / "mine").fresh
    assert main(None, words) == 0
    assert "mine_final" in capsys.readouterr().out
    states = small.statuses(results)  # a kill between a result and its record leaves the result
    assert {identity: states[identity] for identity in states if states[identity].count("finished") > 1} == {}
    assert outcome(results) == undisturbed
    fresh = read_history(results / "sweeps" / "mine").fresh
    assert {seed for scores in fresh.values() for seed in scores} == {3, 4}
    for name, part in (("mine", "validation"), ("mine_final", "test")):
        assert json.loads((results / "sweeps" / name / "plan.json").read_text())["part"] == part
    suffixes = {path.suffix for path in (results / "sweeps" / "mine").glob("mine_optimism.*")}
    assert suffixes == {".md", ".csv", ".tex"}
    assert (results / "sweeps" / "mine" / "mine_search.html").exists()

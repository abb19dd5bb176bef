"""Runs of another program on a tracking server as the seeds of a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.service.cli import parser
from sweeps.service.plan.plan import Plan
from sweeps.service.tables.standing import Standing
from tests.helpers import tracked
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused
from tests.sweeps.exchange.test_import import EXPERIMENT, imported, line


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_sweep(tmp_path / "results", EXPERIMENT, lambda *_: 0.4, n_seeds=1)


def test_finished_runs_are_the_seeds_of_a_row(plan: Plan, mlflow_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    client = tracked.client(mlflow_uri)
    experiment = client.create_experiment("lab")
    runs = []
    for seed, accuracy, status in ((1, 48.0, "FINISHED"), (2, 50.0, "FINISHED"), (3, 90.0, "KILLED")):
        run = client.create_run(experiment, tags={"model": "theirs"})
        client.log_param(run.info.run_id, "random_seed", seed)
        client.log_metric(run.info.run_id, "test_acc", accuracy - 10, step=1)
        client.log_metric(run.info.run_id, "test_acc", accuracy, step=2)
        client.set_terminated(run.info.run_id, status)
        runs.append(run.info.run_id)
    client.set_terminated(client.create_run(experiment).info.run_id)

    def call(*more: str, experiment: str = "lab", metric: str = "mof=test_acc", row: str = "model") -> int:
        words = [
            "mlflow",
            mlflow_uri,
            "--experiment",
            experiment,
            "--row",
            row,
            "--metric",
            metric,
            "--scale",
            "percent",
        ]
        options = parser().parse(line(plan, *words, *more))
        status: int = options.run(options)
        return status

    with refused("unknown", "", "labs", n=1):
        call(experiment="labs")
    with refused("missing", "lab", "modell", n=1):
        call(row="modell")
    with refused("missing", f"run {runs[0]}", "test_ac") as refusal:
        call(metric="mof=test_ac")
    assert refusal.rules == ["missing", "missing"]
    with refused("unknown", "--metric", "mov"):
        call(metric="mov=test_acc")
    assert call("--seed", "random_seed") == 0
    assert runs[2] in capsys.readouterr().out
    row = imported(plan)["theirs"]
    assert row.summaries[0] is not None
    assert (round(row.summaries[0].mean, 12), row.summaries[0].n) == (0.49, 2)
    (source,) = {one.source for one in Standing.of(plan).imported.rows}
    assert (source.kind, source.scale) == ("mlflow", "percent")
    assert source.name.endswith(": lab")


def test_a_server_that_is_not_there_is_refused(plan: Plan, tmp_path: Path) -> None:
    words = ["--experiment", "lab", "--row", "model", "--metric", "mof=acc", "--scale", "percent"]
    for uri, rule in ((f"sqlite:///{tmp_path}/none.db", "missing"), ("http://127.0.0.1:1", "unreachable")):
        options = parser().parse(line(plan, "mlflow", uri, *words))
        with refused(rule):
            options.run(options)
    assert not (tmp_path / "none.db").exists()

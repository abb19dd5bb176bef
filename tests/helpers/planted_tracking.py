"""A planted sweep that was never shipped, its command, and the content of a tracking database."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import sqlalchemy
from rich.console import Console

from sweeps.service.driver import Options, run_plan
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan, read_plan
from sweeps.service.plan.sweep_folder import SweepInfo
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import result_of, split_data
from tests.helpers.trial_folders import (
    EVALUATION,
    write_trial,
)

NAME = "planted"
INFO = SweepInfo(name=NAME, title="Planted", command="python x.py", config={})
PROGRAM = (
    "import sys; from pathlib import Path; from rich.console import Console\n"
    "from sweeps.service.driver import Options, run_plan; from sweeps.service.plan.plan import read_plan\n"
    "from sweeps.service.plan.sweep_folder import SweepInfo\n"
    "from sweeps.service.trials.results_folder import ResultsFolder\n"
    "path, uri = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None\n"
    f"info = SweepInfo(name={NAME!r}, title='Planted', command='c', config={{}})\n"
    "options = Options(device='cpu', cpus='1', gpus='0', checkpoint_seconds=0, tracking_uri=uri, info=info)\n"
    f"status = run_plan(read_plan(ResultsFolder.at(path), {NAME!r}), {{}}, options, Console(width=160))\n"
    "print('mlflow' in sys.modules); sys.exit(status)"
)


def plant(path: Path, seeds: int = 3, first: int = 1) -> Plan:
    """A results folder with the plan of a sweep whose trials are finished and were never shipped.

    Tests that share a server use other seeds, from `first` on.
    """
    row = Variant(labels=("box",))
    cells = []
    for seed in range(first, first + seeds):
        folder = write_trial(path, seed=seed)
        cell = Cell(variant=row, split="1", seed=seed, identity=folder.identity, evaluation=EVALUATION)
        weights = {"weights_sha256": hashlib.sha256(folder.identity.encode()).hexdigest()}
        folder.result_path(EVALUATION).write_text(json.dumps(result_of(cell, {"full": 0.7}, 3, True) | weights))
        cells.append(cell)
    experiment = Experiment(name=NAME, title="Planted", label_titles=("Row",), variants=(row,))
    plan = Plan(
        name=NAME,
        title="Planted",
        parts=(Part(experiment=experiment, cells=tuple(cells), pooling=16),),
        splits={"1": split_data(3)},
        results=ResultsFolder.at(path),
        store="/data/stores/planted",
    )
    plan.write()
    return plan


def again(path: Path, uri: str | None) -> int:
    """The command of the sweep, given again."""
    options = Options(device="cpu", cpus="1", gpus="0", checkpoint_seconds=0, tracking_uri=uri, info=INFO)
    return run_plan(read_plan(ResultsFolder.at(path), NAME), {}, options, Console(width=160))


def process(path: Path, *uri: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), *uri],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def rows(uri: str, query: str) -> list[Any]:
    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.pool.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sqlalchemy.text(query))]


def statuses(uri: str, tag: str = "trial") -> dict[str, str]:
    """Value of a tag -> status, of the runs that were not deleted; a value of two runs fails the test."""
    found = rows(
        uri,
        "select tags.value, status from runs join tags using (run_uuid)"
        f" where key = '{tag}' and lifecycle_stage = 'active'",
    )
    assert len(dict(found)) == len(found), found
    return dict(found)


def points(uri: str, prefix: str = "train/") -> Counter[tuple[str, str]]:
    """(trial, metric) -> number of values; a step that was sent twice fails the test."""
    found = rows(
        uri,
        "select tags.value, metrics.key, step from metrics join tags on metrics.run_uuid = tags.run_uuid"
        " join runs on runs.run_uuid = tags.run_uuid where tags.key = 'trial' and lifecycle_stage = 'active'",
    )
    assert [row for row, times in Counter(found).items() if times > 1] == []
    return Counter((trial, key) for trial, key, _ in found if key.startswith(prefix))

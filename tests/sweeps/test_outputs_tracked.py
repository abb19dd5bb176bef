"""What the tracking server shows of a sweep is what its files say."""

import csv
import json
import statistics
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sweeps.service.experiment import Cell, Experiment
from sweeps.service.plan import Part, Plan
from sweeps.service.table_shape import Column, Variant
from tests.planted_sweeps import EVALUATION, split_data
from tests.tracked import MASKS, artifacts_of, parent_of, runs, tracker
from tests.trial_folders import write_ablation

pytestmark = pytest.mark.service


def test_scores_on_the_server_are_those_of_parquet_and_their_means_those_of_the_table(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folders, rows = write_ablation(tmp_path / "results", seeds=2)
    variants = {row: Variant(labels=(row,)) for row in rows.values()}
    cells = [
        Cell(
            variant=variants[rows[folder.name]],
            split="1",
            seed=json.loads((folder / "trial.json").read_text())["seed"],
            identity=folder.name,
            evaluation=EVALUATION,
        )
        for folder in folders
    ]
    table = Experiment(
        name=MASKS.name,
        title=MASKS.title,
        label_titles=("Row",),
        variants=tuple(variants.values()),
        columns=(Column(title="MoF", metric="mof"), Column(title="Edit", metric="edit", prediction="frames")),
    )
    plan = Plan(
        name=MASKS.name,
        title=MASKS.title,
        parts=(Part(experiment=table, cells=tuple(cells)),),
        splits={"1": split_data(1)},
        results=tmp_path / "results",
        store="/data/stores/tug",
    )
    known = plan.known()
    paths = plan.write_tables(plan.tables(known), known)
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, paths).lines(tmp_path, mlflow_uri) == []

    shown = {run.data.tags["trial"]: run.data.metrics for run in runs(mlflow_uri)}
    lines = pq.read_table(paths["trials.parquet"]).to_pylist()
    assert {line["identity"] for line in lines} == set(shown)
    for line in lines:
        scores = {name: value for name, value in line.items() if "." in name and value is not None}
        assert len(scores) == 8
        assert {name: shown[line["identity"]].get(name) for name in scores} == scores
    with paths["ablation_masks.csv"].open(newline="") as file:
        for row in list(csv.DictReader(file))[: len(variants)]:
            of_row = [shown[cell.identity] for cell in cells if cell.variant.name == row["Row"]]
            for name in ("full.mof", "frames.edit"):
                assert float(row[f"{name}.mean"]) == pytest.approx(statistics.fmean(m[name] for m in of_row))
                assert float(row[f"{name}.std"]) == pytest.approx(statistics.stdev(m[name] for m in of_row))
    attached = artifacts_of(mlflow_uri, parent_of(mlflow_uri).info.run_id)
    assert {f"tables/{name}" for name in paths} <= attached

"""The tracking server has the same values as the files of a sweep."""

import csv
import json
import statistics
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.report.report import write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import EVALUATION, split_data
from tests.helpers.tracked import MASKS, artifacts_of, parent_of, runs, tracker
from tests.helpers.trial_folders import evaluate_later, write_ablation

pytestmark = pytest.mark.service


BEAM = "b" * 16
ALIGNED = "a" * 16


def test_scores_of_later_evaluations_are_added_to_those_of_the_first(tmp_path: Path, mlflow_uri: str) -> None:
    folders, rows = write_ablation(tmp_path / "results")
    evaluate_later(folders[0], BEAM, "segmentation", {"decoding.beam": 10}, 0.8)
    with tracker(mlflow_uri, rows) as shipping:
        shipping.ship(folders)
        evaluate_later(folders[0], ALIGNED, "alignment", {}, 0.9)
        shipping.ship(folders)
    shown = {run.data.tags["trial"]: run for run in runs(mlflow_uri)}
    first = shown[folders[0].identity]
    names = (
        "final_test/full/mof",
        "final_test/beam 10/full/mof",
        "final_test/beam 10/full/inference_seconds",
        "final_test/alignment/full/mof",
    )
    assert [first.data.metrics[name] for name in names] == [pytest.approx(0.71), 0.8, pytest.approx(0.08), 0.9]
    assert "final_test/beam 10/full/edit" not in first.data.metrics
    assert "time/beam 10/train_seconds" not in first.data.metrics
    assert first.data.tags["shipped_evaluations"] == f"{ALIGNED} {BEAM}"
    assert "shipped_evaluations" not in shown[folders[1].identity].data.tags


def test_scores_on_the_server_are_those_of_parquet_and_their_means_those_of_the_table(
    tmp_path: Path, mlflow_uri: str
) -> None:
    folders, rows = write_ablation(tmp_path / "results", seeds=2)
    variants = {row: Variant(labels=(row,)) for row in rows.values()}
    cells = [
        Cell(
            variant=variants[rows[folder.identity]],
            split="1",
            seed=json.loads(folder.trial_path.read_text())["seed"],
            identity=folder.identity,
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
        results=ResultsFolder(tmp_path / "results"),
        store="/data/stores/tug",
    )
    paths = write_report(Standing.of(plan))
    with tracker(mlflow_uri, rows) as shipping:
        assert shipping.finish(folders, paths).lines(tmp_path, mlflow_uri) == []

    shown = {run.data.tags["trial"]: run.data.metrics for run in runs(mlflow_uri)}
    lines = pq.read_table(paths["trials.parquet"]).to_pylist()
    assert {line["identity"] for line in lines} == set(shown)
    for line in lines:
        scores = {name: value for name, value in line.items() if "." in name and value is not None}
        assert len(scores) == 8
        assert {name: shown[line["identity"]].get(f"final_test/{name.replace('.', '/')}") for name in scores} == scores
    with paths["ablation_masks.csv"].open(newline="") as file:
        for row in list(csv.DictReader(file))[: len(variants)]:
            of_row = [shown[cell.identity] for cell in cells if cell.variant.name == row["Row"]]
            for name in ("full.mof", "frames.edit"):
                assert float(row[f"{name}.mean"]) == pytest.approx(
                    statistics.fmean(values := [m[f"final_test/{name.replace('.', '/')}"] for m in of_row])
                )
                assert float(row[f"{name}.std"]) == pytest.approx(statistics.stdev(values))
    attached = artifacts_of(mlflow_uri, parent_of(mlflow_uri).info.run_id)
    assert {f"tables/{name}" for name in paths} <= attached

"""Sweeps over recordings without lengths, and over choices with which a recording cannot be decoded."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from mucon.recipes import breakfast
from storage import StoreWriter, open_store
from sweeps.service.plan.plan import Plan, make_plan
from sweeps.service.plan.recordings import split_data
from sweeps.service.report.report import write_report
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import MATCHING_SCORE, MOF, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.tables.baselines import BLIND, BLIND_ALIGNMENT
from sweeps.service.tables.best import best_lines
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.sweeps import small

ROWS = (
    Variant(labels=("plain",)),
    Variant(labels=("capped",), settings={"decoding.max_length": 4, "mask.shape": "bell"}),
    Variant(labels=("aligned",), task="alignment"),
)


def without_lengths(tiny: Path, path: Path, *, kept: tuple[str, ...] = ()) -> Path:
    """A copy of the tiny store in which only some recordings have lengths."""
    store = open_store(tiny)
    with StoreWriter(path, dim=6, dtype="float32", vocabulary=store.manifest.vocabulary) as writer:
        for part in ("train", "test"):
            for id in store.split("1", part):
                record = store.record(id)
                lengths = record.lengths if id in kept else None
                features = store.features(id)
                writer.add(id, features, transcript=record.transcript, lengths=lengths, splits=(f"1:{part}",))
    return path


def swept(store: Path, results: Path, figure: Figure, columns: tuple[object, ...]) -> Plan:
    """A sweep whose trials are finished, without Ray."""
    experiment = Experiment(
        name="rows", title="Rows", label_titles=("Row",), variants=ROWS, columns=columns, figure=figure
    )
    config = breakfast().with_values({**small.TINY, "training.epochs": 1})
    plan, trials = make_plan(
        experiment,
        store=store,
        base=lambda _table, _method: config,
        settings={},
        seeds=(1,),
        splits=("1",),
        results=ResultsFolder(results),
    )
    for trial in trials.values():
        assert run_trial(trial, plan.results, device="cpu").state is State.FINISHED
    return plan


def test_a_sweep_over_transcripts_alone_shows_what_is_defined(tiny_store: Path, tmp_path: Path) -> None:
    store = without_lengths(tiny_store, tmp_path / "store")
    plan = swept(store, tmp_path / "results", Figure(kind="bars"), (MOF, MATCHING_SCORE))
    standing = Standing.of(plan)
    (table,) = standing.tables.values()
    rows = {row.labels[0]: row for row in table.rows}
    assert set(rows) == {"plain", "capped", "aligned", BLIND, BLIND_ALIGNMENT}
    assert [row.summaries[0] for row in rows.values()] == [None] * 5
    assert rows["aligned"].summaries[1].mean == rows[BLIND_ALIGNMENT].summaries[1].mean == 1.0
    assert 0 < rows[BLIND].summaries[1].mean < 1
    assert rows["plain"].summaries[1] is not None
    notes = " ".join(table.notes)
    assert "3 test videos, none of them with true lengths" in notes
    assert "excluded from MoF: 3 of 3 in 'plain', 'capped', 'aligned'" in notes
    head, _, row = best_lines(standing)[0].partition(": ")
    assert (head, row.split(" (")[0]) == ("best mean", "aligned, Mat Score 1.000")
    paths = write_report(standing)
    (plain, *_) = pq.read_table(paths["trials.parquet"]).to_pylist()
    assert plain["full.matching_score"] >= 0.0
    assert "full.mof" not in plain
    assert "| plain | - |" in paths["rows.md"].read_text().replace("–", "-").replace("—", "-")


def test_a_sweep_counts_the_recordings_that_a_column_excludes(tiny_store: Path, tmp_path: Path) -> None:
    kept = open_store(tiny_store).split("1", "test")[:1]
    store = without_lengths(tiny_store, tmp_path / "store", kept=tuple(kept))
    data = split_data(open_store(store), "1", poolings={4})
    assert (data.n_test, data.n_test_with_lengths) == (3, 1)
    assert 0.5 < data.ceilings["4"] <= 1.0
    plan = swept(store, tmp_path / "results", Figure(kind="segmentations"), (MOF, MATCHING_SCORE))
    table = Standing.of(plan).tables["rows"]
    rows = {row.labels[0]: row for row in table.rows}
    assert rows["plain"].summaries[0] is not None
    assert rows["capped"].summaries[0] is None, "no recording can be filled by segments of 4 frames"
    notes = list(table.notes)
    assert any("1 of them with true lengths" in note for note in notes)
    counts = "2 of 3 in 'plain', 'aligned'; 3 of 3 in 'capped'"
    assert any("excluded from MoF: " in note and counts in note for note in notes)
    assert any("excluded from Mat Score: " in note and "3 of 3 in 'capped'" in note for note in notes)
    write_report(Standing.of(plan))

"""Planted numbers become means and deviations, and every missing value is reported."""

import csv
import io
import re

import pytest
from rich.console import Console

from sweeps.service.plan.cells import Cell
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.stats.summary import Summary
from sweeps.service.tables import table as tables
from sweeps.service.tables import text as tables_text
from sweeps.service.tables.baselines import BLIND
from sweeps.service.tables.table import Seeds
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State

BOX, BELL = Variant(labels=("box", "no")), Variant(labels=("bell", "no"), settings={"mask.shape": "bell"})
EXPERIMENT = Experiment(
    name="planted",
    title="Planted numbers",
    label_titles=("Shape", "Overlap"),
    variants=(BOX, BELL),
    columns=(
        Column(title="MoF", metric="mof"),
        Column(title="Mat Score", metric="matching_score", unit="fraction"),
        Column(title="MoF frames", metric="mof", prediction="frames"),
    ),
)


def split(mof: float) -> SplitData:
    return SplitData(
        fingerprint="f",
        blind={"mof": mof, "matching_score": 0.5},
        commonest="rest",
        commonest_share=0.435,
        n_train=178,
        n_test=45,
    )


def cell(variant: Variant, seed: int, split: str = "1") -> Cell:
    return Cell(variant=variant, split=split, seed=seed, identity=f"{variant.labels[0]}{split}{seed}", evaluation="e")


def finished(mof: float, matching: float = 0.5) -> CellResult:
    scores = {"full": {"mof": mof, "matching_score": matching}, "frames": {"mof": mof / 2}}
    return CellResult(State.FINISHED, None, scores)


def numbers(summary: Summary | None) -> tuple[object, ...]:
    assert summary is not None
    return summary.mean, summary.std, summary.n


def table_of(results: dict[Cell, CellResult], splits: dict[str, SplitData] | None = None) -> tables.Table:
    by_key = {cell.key: result for cell, result in results.items()}
    return tables.make_table(EXPERIMENT, list(results), by_key, splits or {"1": split(0.557)})


def whole() -> tables.Table:
    box = {cell(BOX, seed): finished(mof, 0.7 + 0.01 * seed) for seed, mof in enumerate((0.50, 0.60, 0.70), start=1)}
    return table_of(box | {cell(BELL, seed): finished(0.4) for seed in (1, 2, 3)})


def test_a_row_is_the_mean_and_the_sample_deviation_over_seeds() -> None:
    table = whole()
    box, bell, blind = table.rows
    assert numbers(box.summaries[0]) == (pytest.approx(0.6), pytest.approx(0.1), 3)
    assert numbers(box.summaries[1]) == (pytest.approx(0.72), pytest.approx(0.01), 3)
    assert numbers(box.summaries[2]) == (pytest.approx(0.3), pytest.approx(0.05), 3)
    assert numbers(bell.summaries[0]) == (pytest.approx(0.4), pytest.approx(0.0), 3)
    assert blind.labels[0] == BLIND
    assert blind.summaries == (Summary(0.557, None, 1), Summary(0.5, None, 1), Summary(0.557, None, 1))


def test_markdown_has_the_formats_of_the_fields_and_the_notes() -> None:
    table = whole()
    text = tables_text.markdown(table)
    assert "| box | no | 60.0±10.0 | 0.720±0.010 | 30.0±5.0 | 3 (1 collapsed) |" in text
    assert f"| {BLIND} |  | 55.7 | 0.500 | 55.7 |  |" in text
    assert [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")] == list(table.notes)
    (data,) = table.notes.data
    assert re.findall(r"'\w+'|\d+(?:\.\d+)?", data) == ["1", "178", "45", "'rest'", "43.5"]


def test_rows_that_are_not_better_than_a_feature_free_baseline_are_named() -> None:
    (note,) = whole().notes.baselines
    by_column = note.partition(f"{BLIND!r}: ")[2].split("; ")
    assert by_column == ["MoF: 'bell, no'", "Mat Score: 'bell, no'", "MoF frames: every row"]
    assert table_of({cell(BOX, 1): finished(1.2, 0.6)}).notes.baselines == ()
    everywhere = {cell(variant, 1): finished(0.1, 0.1) for variant in (BOX, BELL)}
    (note,) = table_of(everywhere).notes.baselines
    assert repr(BLIND) in note
    assert not any(row.name in note for row in table_of(everywhere).rows[:2])


def test_csv_has_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(tables_text.comma_separated(whole()))))
    assert [row["Shape"] for row in rows] == ["box", "bell", BLIND]
    assert float(rows[0]["full.mof.std"]) == pytest.approx(0.1, abs=1e-15)
    assert rows[0]["frames.mof.n"] == "3"
    assert (rows[2]["frames.mof.mean"], rows[2]["frames.mof.std"]) == ("0.557", "")


def test_a_cell_without_value_is_left_out_of_the_mean_and_named_with_its_reason() -> None:
    results = {cell(BOX, 1): finished(0.5), cell(BOX, 2): CellResult(State.FAILED, "ValueError: no cake")}
    results |= {cell(BELL, 1): CellResult(State.MISSING), cell(BELL, 2): CellResult(State.DIVERGED, "epoch 3")}
    table = table_of(results)
    assert numbers(table.rows[0].summaries[0]) == (0.5, None, 1)
    assert [row.seeds for row in table.rows] == [Seeds(1, 2), Seeds(0, 2), None]
    assert [row.seeds_text for row in table.rows] == ["1 of 2 (1 collapsed)", "0 of 2", ""]
    assert table.rows[1].summaries == (None, None, None)
    expected = {
        "box, no, split 1, seed 2": (State.FAILED, "ValueError: no cake (trials/box12)"),
        "bell, no, split 1, seed 1": (State.MISSING, "(trials/bell11)"),
        "bell, no, split 1, seed 2": (State.DIVERGED, "epoch 3 (trials/bell12)"),
    }
    assert len(table.notes.missing) == len(expected)
    for note, (name, (state, reason)) in zip(table.notes.missing, expected.items(), strict=True):
        assert note.startswith(f"{name}: {state} ")
        assert note.endswith(reason)
    assert list(table.notes)[-3:] == list(table.notes.missing)
    assert "| bell | no | – | – | – | 0 of 2 |" in tables_text.markdown(table)


def test_a_seed_counts_once_with_the_mean_over_its_splits_and_only_when_it_has_them_all() -> None:
    results = {
        cell(BOX, seed, name): finished(0.1 * seed + shift) for seed in (1, 2) for name, shift in (("1", 0), ("2", 0.2))
    }
    results |= {cell(BELL, 1, "1"): finished(0.5), cell(BELL, 1, "2"): finished(0.7)}
    results |= {cell(BELL, 2, "1"): finished(0.1), cell(BELL, 2, "2"): CellResult(State.STOPPED, "interrupted")}
    table = table_of(results, {"1": split(0.5), "2": split(0.6)})
    assert numbers(table.rows[0].summaries[0]) == (pytest.approx(0.25), pytest.approx(0.1 / 2**0.5), 2)
    assert numbers(table.rows[1].summaries[0]) == (pytest.approx(0.6), None, 1)
    assert numbers(table.rows[2].summaries[0]) == (pytest.approx(0.55), None, 1)


def test_a_score_that_a_seed_does_not_define_is_counted_with_fewer_seeds() -> None:
    undefined = CellResult(State.FINISHED, None, {"full": {"mof": 0.7}, "frames": {}})
    table = table_of(
        {
            cell(BOX, 1): finished(0.5),
            cell(BOX, 2): undefined,
            cell(BELL, 1): finished(0.1),
            cell(BELL, 2): finished(0.1),
        }
    )
    assert numbers(table.rows[0].summaries[0]) == (pytest.approx(0.6), pytest.approx(0.1414213562), 2)
    assert numbers(table.rows[0].summaries[1]) == (0.5, None, 1)
    rows = list(csv.DictReader(io.StringIO(tables_text.comma_separated(table))))
    assert (rows[0]["full.mof.n"], rows[0]["full.matching_score.n"]) == ("2", "1")


@pytest.mark.parametrize("width", [60, 200])
def test_no_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(tables_text.for_terminal(whole(), console))
    shown = capture.get()
    for text in ("60.0", "±10.0", "0.720", "±0.010", "55.7", "box", "bell", "transcript"):
        assert text in shown
    assert ("60.0±10.0" in shown) == (width == 200)

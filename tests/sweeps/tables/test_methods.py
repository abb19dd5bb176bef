"""A table of several methods says how each is trained, which prediction is its own, and which learns nothing."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.row_facts import RowFacts
from sweeps.service.report.page_tables import score_table
from sweeps.service.spec.columns import MOF, Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.quoted import Quoted
from sweeps.service.spec.rows import with_quoted
from sweeps.service.tables.best import best_of
from sweeps.service.tables.latex import latex
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import Row, Table
from sweeps.service.tables.text import comma_separated, for_terminal, markdown
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused

SCORES = {"weak": 0.5, "weak, frames": 0.4, "full": 0.9, "nothing": 0.1}
EXPERIMENT = Experiment(
    name="methods",
    title="Methods",
    label_titles=("Method",),
    variants=(
        Variant(labels=("weak",), prediction="full"),
        Variant(labels=("weak, frames",), prediction="frames"),
        Variant(labels=("full",), method="ms_tcn", prediction="frames"),
        Variant(labels=("nothing",), method="frame_mlp", prediction="frames"),
    ),
    columns=(MOF, Column(metric="boundary_error_frames")),
    quoted=(
        Quoted(
            labels=("weak",), data="somewhere", values={"mof": (95.0, 1.5)}, source="a paper", convention="by video"
        ),
        Quoted(labels=("other",), data="elsewhere", values={"mof": 10.0}, source="a paper", convention="by video"),
    ),
)
FACTS = {
    ("weak",): RowFacts(supervision="transcripts", passes=30, schedule="passes", is_main=True),
    ("weak, frames",): RowFacts(supervision="transcripts", passes=30, schedule="passes"),
    ("full",): RowFacts(supervision="frame labels", passes=30, is_main=True),
    ("nothing",): RowFacts(supervision="frame labels", passes=7, is_main=True),
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    made = make_sweep(
        tmp_path, with_quoted(EXPERIMENT, "somewhere").experiments[0], lambda row, *_: SCORES[row], n_seeds=5
    )
    whole = replace(made, parts=(replace(made.parts[0], facts=FACTS),))
    whole.write()
    return read_plan(whole.results, "methods")


@pytest.fixture
def table(plan: Plan) -> Table:
    return Standing.of(plan).tables["methods"]


def of_labels(table: Table) -> dict[str, Row]:
    return {row.marked_labels[0]: row for row in table.rows}


def test_supervision_stands_beside_each_method_and_own_predictions_are_named(table: Table) -> None:
    rows = of_labels(table)
    assert table.label_heads == ("Method", "supervision")
    assert rows["weak"].marked_labels == ("weak", "transcripts")
    assert rows["full"].marked_labels == ("full", "frame labels")
    assert [row.is_main for row in table.rows[:4]] == [True, False, True, True]
    assert all(len(row.marked_labels) == 2 for row in table.rows)


def test_a_method_that_does_not_beat_the_blind_baseline_has_a_sign_and_a_sentence(table: Table) -> None:
    assert [row.is_not_better for row in table.rows[:4]] == [False, False, False, True]
    (note,) = [note for note in table.notes.methods if note.startswith("†")]
    assert "'nothing'" in note
    assert not {"'weak'", "'full'"} & set(note.replace(",", " ").split())


def test_notes_state_equal_passes_and_the_schedule(table: Table) -> None:
    (passes,) = [note for note in table.notes.methods if note.startswith("passes")]
    of_rows = [(passes.index(row), row) for row in ("'weak'", "'weak, frames'", "'full'", "'nothing'")]
    assert passes.index(" 30 ") < of_rows[0][0] < of_rows[2][0] < passes.index(" 7 ") < of_rows[3][0]
    (schedule,) = [note for note in table.notes.methods if note.startswith("schedule")]
    assert "'weak', 'weak, frames'" in schedule


def test_a_table_of_one_method_is_as_it_was(plan: Plan) -> None:
    shape = replace(EXPERIMENT, variants=EXPERIMENT.variants[:2], quoted=())
    part = replace(plan.parts[0], experiment=shape, cells=tuple(c for c in plan.cells if c.variant in shape.variants))
    table = Standing.of(replace(plan, parts=(part,))).tables["methods"]
    assert table.label_heads == ("Method",)
    assert table.notes.methods == ()
    assert not any(row.is_main or row.is_not_better for row in table.rows)


def test_a_quoted_row_looks_different_in_every_output_and_is_compared_with_nothing(plan: Plan, table: Table) -> None:
    row = of_labels(table)["weak (reported)"]
    assert (row.kind, row.seeds, row.bold, row.supervision) == ("quoted", None, (False, False), "transcripts")
    assert row.summaries[0] is not None
    assert (row.summaries[0].mean, row.summaries[0].std) == (0.95, 0.015)
    assert row.summaries[1] is None
    assert "| *weak (reported)* | *transcripts* | 95.0±1.5 | – |  |" in markdown(table)
    (quoted,) = [line for line in latex(table).splitlines() if r"\textit{weak (reported)}" in line]
    assert all(text in quoted for text in (r"\textit{transcripts}", "95.0"))
    assert "class='imported' data-key='weak (reported)'" in score_table(table)
    kinds = [one["kind"] for one in csv.DictReader(io.StringIO(comma_separated(table)))]
    assert kinds == ["row"] * 4 + ["quoted", "baseline", "ceiling"]
    (note,) = table.notes.imported
    assert all(text in note for text in ("somewhere", "'weak'", "a paper", "by video"))
    best = best_of(Standing.of(plan), plan.parts[0])
    assert best is not None
    assert (best.row.name, best.n_others) == ("full", 3)


def test_own_predictions_and_signs_are_in_every_output(table: Table) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(for_terminal(table, console))
    assert "nothing †" in console.export_text()
    assert "| **nothing †** | frame labels |" in markdown(table)
    assert "| weak, frames | transcripts |" in markdown(table)
    assert r"\textbf{nothing $^{\dagger}$}" in latex(table)
    assert "class='best' data-key='nothing †'" in score_table(table)
    first = next(csv.DictReader(io.StringIO(comma_separated(table))))
    assert (first["Method"], first["supervision"]) == ("weak", "transcripts")


def test_quoted_rows_are_shown_for_the_data_that_the_command_names_alone() -> None:
    assert with_quoted(EXPERIMENT, None).experiments[0].quoted == ()
    (row,) = with_quoted(EXPERIMENT, "elsewhere").experiments[0].quoted
    assert row.labels == ("other",)
    with refused("unknown", "--quoted", "nowhere"):
        with_quoted(EXPERIMENT, "nowhere")


def test_a_metric_that_results_of_an_earlier_version_lack_is_named_with_their_rows(plan: Plan) -> None:
    column = Column(metric="iou_by_class")
    shape = replace(plan.parts[0].experiment, columns=(MOF, column))
    standing = Standing.of(replace(plan, parts=(replace(plan.parts[0], experiment=shape),)))
    known = {name: {"mof": 0} for name in ("frames", "full")}
    old = {key: replace(result, undefined=known) for key, result in standing.results.items()}
    new = {key: replace(result, undefined={"full": {"mof": 0, "iou_by_class": 9}}) for key, result in old.items()}
    first = next(cell.key for cell in plan.cells if cell.variant.name == "weak")
    for results, n in (
        (old, 1),
        (new, 0),
        ({**new, first: old[first]}, 1),
        ({**old, first: CellResult(State.MISSING)}, 1),
    ):
        table = Standing.with_results(standing.plan, results).tables["methods"]
        assert sum(column.title in note for note in table.notes.missing) == n


def test_facts_and_quoted_rows_are_in_the_plan(plan: Plan) -> None:
    assert plan.parts[0].facts == FACTS
    assert plan.parts[0].experiment.quoted == EXPERIMENT.quoted[:1]

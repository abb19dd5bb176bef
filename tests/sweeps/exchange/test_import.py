"""Results from elsewhere as rows: another style, a note of the source, no effect on tests; and what is refused."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.cli import main, parser
from sweeps.service.plan.imported import FILE
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.sweep_folder import hold
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import Row, Table
from sweeps.service.upkeep.merging_sweeps import merge_sweeps
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused

EXPERIMENT = Experiment(
    name="masks",
    title="Masks",
    label_titles=("Shape", "Overlap"),
    variants=(Variant(labels=("box", "no")), Variant(labels=("bell", "no")), Variant(labels=("bell", "10 %"))),
    columns=(Column(metric="mof"), Column(metric="mof", prediction="frames", title="frames"), Column(metric="edit")),
    default_row="box, no",
)
SEEDS = "Shape,split,seed,mof,frames.mof\n" + "".join(
    f"theirs,{split},{seed},{50 + seed + int(split)},40\n" for split in "12" for seed in (1, 2, 3)
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return make_sweep(
        tmp_path_factory.mktemp("planted") / "results",
        EXPERIMENT,
        lambda row, split, seed, _: 0.4 + 0.1 * row.startswith("bell") + 0.01 * seed + 0.001 * int(split),
        splits=("1", "2"),
    )


@pytest.fixture
def plan(planted: Plan, tmp_path: Path) -> Plan:
    shutil.copytree(planted.results.path, tmp_path / "results")
    return read_plan(type(planted.results).at(tmp_path / "results"), planted.name)


def line(plan: Plan, *words: object) -> list[str]:
    return ["import-results", *map(str, words), "--sweep", plan.name, "--results", str(plan.results.path)]


def call(plan: Plan, *words: object) -> int:
    """Imports, and lets errors pass, for `with refused(...)`."""
    options = parser().parse(line(plan, *words))
    status: int = options.run(options)
    return status


def import_csv(plan: Plan, text: str, *more: str, name: str = "paper.csv") -> int:
    path = plan.results.path / name
    path.write_text(text, encoding="utf-8")
    return call(plan, "csv", path, *(more or ("--scale", "percent")))


def table_of(plan: Plan) -> Table:
    return Standing.of(plan).tables[plan.name]


def imported(plan: Plan) -> dict[str, Row]:
    return {row.name: row for row in table_of(plan).rows if row.kind == "imported"}


def test_rows_with_seeds_have_means_and_deviations_and_change_no_own_row(plan: Plan) -> None:
    before = table_of(plan)
    assert import_csv(plan, SEEDS) == 0
    row = imported(plan)["theirs"]
    mof, frames, edit = row.summaries
    assert mof is not None
    assert (round(mof.mean, 12), round(mof.std or 0, 12), mof.n) == (0.535, 0.01, 3)
    assert frames is not None
    assert (round(frames.mean, 12), edit) == (0.4, None)
    assert (str(row.seeds), any(row.bold), row.p_values) == ("3", False, (None,) * 3)
    own = [row for row in table_of(plan).rows if row.kind != "imported"]
    assert own == list(before.rows)
    after = table_of(plan).notes
    assert (after.statistics, after.differences, after.ranking) == (
        before.notes.statistics,
        before.notes.differences,
        before.notes.ranking,
    )


def test_every_output_has_imported_rows_in_another_style_with_their_source(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert import_csv(plan, "row,mof,scale\nQuoted & old,49.5,percent\n", "--results", str(plan.results.path)) == 0
    terminal = capsys.readouterr().out
    texts = {suffix: (plan.folder / f"masks.{suffix}").read_text() for suffix in ("md", "tex", "csv", "html")}
    assert "*Quoted & old (imported)*" in texts["md"]
    assert r"\textit{Quoted \& old (imported)}" in texts["tex"]
    assert "class='imported'" in texts["html"]
    (of_csv,) = [row for row in csv.DictReader(texts["csv"].splitlines()) if row["kind"] == "imported"]
    assert (of_csv["Shape"], of_csv["full.mof.mean"], of_csv["seeds"]) == ("Quoted & old", "0.495", "")
    sha256 = json.loads((plan.folder / FILE).read_text())["rows"][0]["source"]["sha256"][:12]
    for text in (terminal, texts["md"], texts["tex"], texts["html"]):
        assert sha256 in text
        assert "paper.csv" in text
    assert str(plan.results.path) not in (plan.folder / FILE).read_text()
    row = imported(plan)["Quoted & old"]
    assert (row.seeds, row.summaries[0] and row.summaries[0].std) == (None, None)


def test_reports_exports_and_further_imports_keep_rows_until_they_are_removed(plan: Plan, tmp_path: Path) -> None:
    import_csv(plan, SEEDS)
    import_csv(plan, "row,mof\nquoted,0.51\n", "--scale", "fraction", name="other.csv")
    assert list(imported(plan)) == ["theirs", "quoted"]
    shown = (plan.folder / "masks.md").read_bytes()
    assert main(None, ["report", plan.name, "--results", str(plan.results.path)]) == 0
    file = tmp_path / "masks.parquet"
    exported = main(None, ["export-results", plan.name, "--to", str(file), "--results", str(plan.results.path)])
    assert exported == 3, "planted trials have no predictions"
    assert main(None, ["report", "--from", str(file), "--out", str(tmp_path / "out")]) == 0
    assert (plan.folder / "masks.md").read_bytes() == (tmp_path / "out" / "masks.md").read_bytes() == shown
    with refused("exists", "other.csv", "quoted", n=1):
        import_csv(plan, "row,mof\nquoted,0.6\nnew,0.6\n", "--scale", "fraction", name="other.csv")
    with refused("unknown", plan.name, "quotd", n=1):
        call(plan, "remove", "quotd")
    assert call(plan, "remove", "quoted") == call(plan, "remove", "theirs") == 0
    assert not (plan.folder / FILE).exists()
    assert b"imported" not in (plan.folder / "masks.md").read_bytes()


@pytest.mark.parametrize(
    ("text", "rule", "place", "value"),
    [
        ("row,mof\nx,49,5\n", "shape", "paper.csv: line 2", 3),
        ("row,mof\nx,\n", "missing", "paper.csv: line 2", None),
        ("row,mof\n\n,49\n", "missing", "paper.csv: line 3", ""),
        ("row,mof\nx,high\n", "type", "paper.csv: line 2: mof", "high"),
        ("row,mof\nx,nan\n", "range", "paper.csv: line 2: mof", ...),
        ("row,mof\nx,101\n", "range", "paper.csv: line 2: mof", 101.0),
        ("row,mof\nx,-1\n", "range", "paper.csv: line 2: mof", -1.0),
        ("row,seed,mof\nx,one,49\n", "type", "paper.csv: line 2: seed", "one"),
        ("row,seed,mof\nx,1,49\nx,1,50\n", "duplicate", "paper.csv: line 3", 1),
        ("row,mof\nx,49\nx,50\n", "duplicate", "paper.csv: line 3", None),
        ("row,seed,mof\nx,1,49\nx,,50\n", "mismatch", "paper.csv: line 3", "seed"),
        ("row,split,mof\nx,3,49\n", "unknown", "paper.csv: line 2", "3"),
        ("row,split,seed,mof\nx,1,1,49\n", "missing", "paper.csv: line 2", "2"),
        ("row,mov\nx,49\n", "unknown", "paper.csv: line 1", "mov"),
        ("row,whole.mof\nx,49\n", "unknown", "paper.csv: line 1", "whole.mof"),
        ("row,mof,mof\nx,49,49\n", "duplicate", "paper.csv: line 1", "mof"),
        ("mof\n49\n", "missing", "paper.csv: line 1", "Shape"),
        ("row,seed\nx,1\n", "missing", "paper.csv: line 1", "metric"),
        ("row,mof\n", "missing", "paper.csv", None),
        ("", "missing", "paper.csv", "Shape"),
        ("row,mof\nx,0.49\n", "mismatch", "paper.csv", "percent"),
        ("row,mof,scale\nx,49,percent\n", "conflict", "paper.csv: line 1", "scale"),
        ("row,iou\nx,49\n", "missing", "paper.csv", "masks"),
        ("Shape,Overlap,mof\nbox,no,49\n", "duplicate", "paper.csv: line 2", "box, no"),
        ("row,mof\n\x1b[31m,49\n", "type", "paper.csv: line 2", ...),
        ('row,mof\n"x,49\n', "unreadable", "paper.csv", None),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(plan: Plan, text: str, rule: str, place: str, value: Any) -> None:
    given = {} if value is ... else {"value": value}
    with refused(rule, place, **given):
        import_csv(plan, text)
    assert not (plan.folder / FILE).exists()


def test_shares_need_a_statement_of_their_scale(plan: Plan) -> None:
    with refused("missing", "paper.csv: line 1", "scale"):
        import_csv(plan, "row,mof\nx,49\n", "--json")
    with refused("type", "paper.csv: line 2: scale", "per cent"):
        import_csv(plan, "row,mof,scale\nx,49,per cent\n", "--json")
    assert import_csv(plan, "row,boundary_error_frames,mof,scale\nx,30,,\ny,,49,percent\n", "--json") == 0
    assert [row.source.scale for row in Standing.of(plan).imported.rows] == ["percent"] * 2
    with refused("missing", "paper.csv", plan.name):
        import_csv(plan, "row,boundary_error_frames\nz,30\n", "--json")
    with refused("unreadable", "none.csv"):
        call(plan, "csv", "none.csv", "--scale", "percent")


def test_a_running_sweep_and_a_damaged_file_are_left_alone(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    with hold(plan.results, plan.name), refused("busy"):
        import_csv(plan, SEEDS)
    import_csv(plan, SEEDS)
    whole = (plan.folder / FILE).read_text()
    report = ["report", plan.name, "--results", str(plan.results.path)]
    for damage in (
        whole[:-40],
        whole.replace('"mof"', '"mov"'),
        whole.replace('"format_version": 1', '"format_version": 9'),
    ):
        (plan.folder / FILE).write_text(damage)
        capsys.readouterr()
        assert main(None, report) == 3
        assert str(plan.folder / FILE) in capsys.readouterr().out
        assert not imported(plan)
        with refused("version" if "9" in damage[:30] else "damaged", str(plan.folder / FILE)):
            call(plan, "remove", "theirs")
        assert (plan.folder / FILE).read_text() == damage


def test_a_merge_takes_imported_rows_that_are_new(plan: Plan, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(plan.results.path, other)
    import_csv(plan, SEEDS)
    import_csv(plan, "row,mof\nquoted,49\n")
    there = read_plan(type(plan.results).at(other), plan.name)
    import_csv(there, "row,mof\nquoted,50\n")
    for verdict in ("extended", "same"):
        steps = merge_sweeps(plan.results, there.results, tmp_path / "incoming", dry_run=False)
        assert [step.verdict for step in steps] == [verdict]
    summaries = {name: row.summaries[0] for name, row in imported(there).items()}
    assert {name: summary and round(summary.mean, 12) for name, summary in summaries.items()} == {
        "quoted": 0.5,
        "theirs": 0.535,
    }

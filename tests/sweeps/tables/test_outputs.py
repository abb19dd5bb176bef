"""Markdown, LaTeX, CSV and Parquet of a sweep agree with each other and with the trial directories."""

import csv
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.report.report import present, write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.baselines import BLIND
from sweeps.service.tables.latex import escaped
from sweeps.service.tables.standing import Standing
from sweeps.service.text import in_markdown
from sweeps.service.trials.folder import State
from tests.helpers.planted_sweeps import EVALUATION, Unfinished, make_sweep
from tests.sweeps import small

ROWS = ("50 %_box & {a|b}", "[bell] ~ #1*", "<trapezoid> $x^2$ \\ –")
"""Names with all characters that have a meaning in some format."""
SCALES = {"percent": (100, 1), "fraction": (1, 3), "frames": (1, 1)}
COLUMNS = (
    Column(title="MoF", metric="mof"),
    Column(title="MoF_frames", metric="mof", prediction="frames", unit="fraction"),
    Column(title="borders, frames", metric="boundary_error_frames", unit="frames"),
)
EXPERIMENT = Experiment(
    name="planted_names",
    title="Planted numbers: 100 % & more_of_it",
    label_titles=("Row", "Over_lap"),
    variants=tuple(Variant(labels=(name, "no"), settings={"loss.smoothing": i}) for i, name in enumerate(ROWS)),
    columns=COLUMNS,
    default_row=f"{ROWS[0]}, no",
)
FAILED = Unfinished("failed", "ValueError: 3 % of {it}\nwas_lost")


def mof(row: str, split: str, seed: int, prediction: str) -> float:
    place = next(i for i, name in enumerate(ROWS) if row.startswith(name))
    return 0.6 - 0.1 * place + 0.01 * seed + 0.05 * int(split) - (0.03 if prediction == "frames" else 0)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    results = tmp_path_factory.mktemp("outputs")
    unfinished = {(f"{ROWS[1]}, no", "2", 3): FAILED}
    sweep = make_sweep(results, EXPERIMENT, mof, splits=("1", "2"), n_seeds=6, unfinished=unfinished)
    paths = write_report(Standing.of(sweep))
    kinds = ("csv", "html", "md", "png", "svg", "tex")
    assert sorted(paths) == [*(f"planted_names.{kind}" for kind in kinds), "trials.parquet"]
    assert all(path == sweep.folder / name and path.exists() for name, path in paths.items())
    return sweep


def text(plan: Plan, suffix: str) -> str:
    return (plan.folder / f"planted_names.{suffix}").read_text(encoding="utf-8")


def result_path(plan: Plan, identity: str) -> Path:
    return plan.results.trial(identity).result_path(EVALUATION)


def expected(plan: Plan) -> Iterator[tuple[int, Column, float, float, int]]:
    """From the trials' result files alone: row, column, mean, deviation and number of the seeds with both splits."""
    for row, variant in enumerate(EXPERIMENT.variants):
        for column in COLUMNS:
            by_seed: dict[int, list[float]] = {}
            for cell in plan.cells:
                path = result_path(plan, cell.identity)
                if cell.variant is variant and path.exists():
                    score = json.loads(path.read_text())["scores"][column.prediction][column.metric]
                    by_seed.setdefault(cell.seed, []).append(score)
            whole = [sum(values) / 2 for values in by_seed.values() if len(values) == 2]
            yield row, column, sum(whole) / len(whole), statistics.stdev(whole), len(whole)


def markdown_rows(plan: Plan) -> list[list[str]]:
    lines = [line for line in text(plan, "md").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [[re.sub(r"\\(\W|_)", r"\1", cell).strip() for cell in row] for row in cells]


def latex_rows(plan: Plan) -> list[list[str]]:
    body = text(plan, "tex").partition("\\toprule")[2].partition("\\bottomrule")[0]
    lines = [line.strip() for line in body.splitlines() if line.strip() and line.strip() != "\\midrule"]
    assert all(line.endswith(" \\\\") for line in lines)
    spread = [re.sub(r"\\multicolumn\{2\}\{l\}\{(.*?)\}", r"\1 &", line) for line in lines]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix("\\\\"))] for line in spread]


def csv_rows(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(text(plan, "csv").splitlines()))


def trials(plan: Plan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(plan.folder / "trials.parquet").to_pylist()
    return rows


def test_markdown_latex_and_csv_contain_the_scores_of_the_trial_directories(plan: Plan) -> None:
    in_markdown, in_latex, in_csv = markdown_rows(plan)[2:], latex_rows(plan)[1:], csv_rows(plan)
    assert len(in_markdown) == len(in_latex) == len(in_csv) == len(ROWS) + 2
    for row, column, mean, std, n in expected(plan):
        place = 2 + COLUMNS.index(column)
        scale, digits = SCALES[column.shown_unit]
        mean_text, std_text = f"{scale * mean:.{digits}f}", f"{scale * std:.{digits}f}"
        name = f"{column.prediction}.{column.metric}"
        bold = in_csv[row][f"{name}.bold"] == "1"
        shown = f"{mean_text}±{std_text}"
        assert in_markdown[row][place] == (f"**{shown}**" if bold else shown)
        in_bold = rf"\textbf{{{mean_text}}}" if bold else mean_text
        assert in_latex[row][place] == rf"{in_bold}\textsubscript{{$\pm${std_text}}}"
        assert float(in_csv[row][f"{name}.mean"]) == pytest.approx(mean, abs=1e-12)
        assert float(in_csv[row][f"{name}.std"]) == pytest.approx(std, abs=1e-12)
        assert int(in_csv[row][f"{name}.n"]) == n == (5 if row == 1 else 6)
        low, high = float(in_csv[row][f"{name}.low"]), float(in_csv[row][f"{name}.high"])
        assert (low + high) / 2 == pytest.approx(mean)
        assert low < mean < high


def test_labels_and_seeds_are_the_same_in_all_formats(plan: Plan) -> None:
    for row, name in enumerate(ROWS):
        seeds = "5 of 6" if row == 1 else "6"
        assert markdown_rows(plan)[2 + row][:2] == [name, "no"]
        assert latex_rows(plan)[1 + row][:2] == [escaped(name), "no"]
        assert (csv_rows(plan)[row]["Row"], csv_rows(plan)[row]["kind"]) == (name, "row")
        shown = markdown_rows(plan)[2 + row][-1], latex_rows(plan)[1 + row][-1], csv_rows(plan)[row]["seeds"]
        assert shown == (seeds, seeds, seeds)
    assert [row["default"] for row in csv_rows(plan)] == ["1", "0", "0", "0", "0"]
    below = [row["Row"] for row in csv_rows(plan)[len(ROWS) :]]
    assert below == [BLIND, "ceiling of frames, pooling x16"]
    assert [row[:5] for row in markdown_rows(plan)[-2:]] == [
        [BLIND, "", "20.0", "0.200", "30.0"],
        ["ceiling of frames, pooling x16", "", "–", "0.900", "–"],
    ]


def test_parquet_has_a_row_for_each_cell_with_its_scores_or_the_reason_for_their_absence(plan: Plan) -> None:
    rows = trials(plan)
    assert [(row["row"], row["split"], row["seed"]) for row in rows] == [
        (cell.variant.name, cell.split, cell.seed) for cell in plan.cells
    ]
    for row in rows:
        assert (row["sweep"], row["table"]) == ("planted_names", "planted_names")
        assert row["default"] == (row["labels"][0] == ROWS[0])
        path = result_path(plan, row["identity"])
        if not path.exists():
            assert (row["state"], row["reason"], row["full.mof"]) == ("failed", FAILED.reason, None)
            continue
        result = json.loads(path.read_text())
        assert row["state"] == "finished"
        assert row["training_seconds"] == result["train_seconds"]
        for prediction, scores in result["scores"].items():
            assert {metric: row[f"{prediction}.{metric}"] for metric in scores} == scores
            assert row[f"{prediction}.inference_seconds"] == result["seconds"][prediction]


def test_parquet_and_csv_have_the_same_means(plan: Plan) -> None:
    for name, in_csv in zip(ROWS, csv_rows(plan), strict=False):
        of_row = [row for row in trials(plan) if row["labels"] == [name, "no"]]
        whole = [row["full.mof"] for row in of_row if not (name == ROWS[1] and row["seed"] == 3)]
        assert float(in_csv["full.mof.mean"]) == pytest.approx(sum(whole) / len(whole), abs=1e-12)


def test_a_cell_without_value_is_named_with_its_reason_under_every_table(plan: Plan) -> None:
    (cell,) = [c for c in plan.cells if (c.variant.labels[0], c.split, c.seed) == (ROWS[1], "2", 3)]
    (note,) = Standing.of(plan).tables["planted_names"].notes.missing
    assert note.startswith(f"{ROWS[1]}, no, split 2, seed 3: failed ")
    assert note.endswith(f"{FAILED.reason} (trials/{cell.identity})")
    assert f"- {in_markdown(note)}" in text(plan, "md")
    comments = [line.removeprefix("% ") for line in text(plan, "tex").splitlines() if line.startswith("% ")]
    assert " ".join(note.split()) in comments
    (under,) = [line for line in text(plan, "tex").splitlines() if line.startswith(r"\parbox")]
    assert under.split(r"\par ")[-1].startswith("1 cell ")


def test_braces_and_environments_of_latex_are_balanced_and_rows_have_all_columns(plan: Plan) -> None:
    code = re.sub(r"(?m)^%.*$", "", text(plan, "tex"))
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", code.replace("\\\\", "")):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", code):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    assert code.count("$") % 2 == code.count(r"\$") % 2
    alignment = re.search(r"\\begin\{tabular\}\{(\w+)\}", code)
    assert alignment is not None
    assert {len(row) for row in latex_rows(plan)} == {len(alignment[1])} == {2 + len(COLUMNS) + 1}
    assert r"\label{tab:planted_names}" in code
    caption = code.partition(r"\caption{")[2].partition("\n")[0]
    assert caption.startswith(f"{escaped(EXPERIMENT.title)}. Data: planted. Mean")
    assert "$n = 5$ to $6$ seeds" in caption
    assert code.index(r"\caption{") < code.index(r"\begin{tabular}") < code.index(r"\parbox{"), "notes are at the end"
    assert escaped(EXPERIMENT.title).endswith(r": 100 \% \& more\_of\_it")


@pytest.mark.skipif(
    shutil.which("pdflatex") is None and shutil.which("tectonic") is None,
    reason="neither pdflatex nor tectonic is installed",
)
def test_latex_compiles_in_a_small_document(plan: Plan, tmp_path: Path) -> None:
    document = tmp_path / "paper.tex"
    document.write_text(
        "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n"
        + text(plan, "tex")
        + "Table~\\ref{tab:planted_names}.\n\\end{document}\n",
        encoding="utf-8",
    )
    program = shutil.which("pdflatex")
    options = ["-interaction=nonstopmode", "-halt-on-error"] if program else []
    line = [program or str(shutil.which("tectonic")), *options, document.name]
    ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 1000


def test_a_report_writes_the_same_files_again_and_imports_neither_ray_nor_mlflow(plan: Plan) -> None:
    before = {path.name: path.read_bytes() for path in plan.folder.iterdir() if path.suffix in (".md", ".csv", ".tex")}
    trials_before = trials(plan)
    for name in (*before, "trials.parquet"):
        (plan.folder / name).unlink()
    line = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "sweeps",
        "report",
        plan.name,
        "--results",
        str(plan.results.path),
    ]
    ran = small.run(line)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert {name: (plan.folder / name).read_bytes() for name in before} == before
    assert trials(plan) == trials_before
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    assert {"pyarrow", "sweeps"} <= imported
    assert not {"ray", "mlflow", "optuna"} & imported


def test_a_plan_read_back_makes_the_same_tables(plan: Plan) -> None:
    again = read_plan(plan.results, plan.name)
    assert again == plan
    assert Standing.of(again).tables == Standing.of(plan).tables


def test_finished_cells_are_read_once(plan: Plan) -> None:
    first = Standing.of(plan)
    finished = result_path(plan, plan.cells[0].identity)
    content = finished.read_bytes()
    finished.write_text("no longer a result")
    try:
        assert Standing.of(plan, earlier=first.results).results == first.results
        damaged = Standing.of(plan).results[plan.cells[0].key]
        assert damaged.state is State.DAMAGED
        assert str(finished) in str(damaged.reason)
    finally:
        finished.write_bytes(content)


def test_a_sweep_is_complete_when_every_cell_has_a_result(plan: Plan, tmp_path: Path) -> None:
    standing = Standing.of(plan)
    assert not standing.is_complete
    assert standing.table(plan.parts[0]) is standing.tables["planted_names"]
    assert Standing.of(make_sweep(tmp_path, EXPERIMENT, mof, n_seeds=1)).is_complete


NASTY = (
    "[/]",
    "[bold]x[/bold]",
    "Weight \\lambda \\1 \\g<0>",
    "%s {0} {} $HOME $\\frac{ & #",
    "'\"`*_~",
    "</svg><b>&amp;",
    "a\nb",
)
NASTY += ("λ ≥ 中 é 🎉", "long " * 60)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_texts_that_look_like_markup_are_in_every_output_as_they_are_written(tmp_path: Path) -> None:
    title = "Title " + " ".join(NASTY)
    rows = tuple(Variant(labels=(one,), settings={"loss.smoothing": i}) for i, one in enumerate(NASTY))
    columns = tuple(
        Column(title=f"C {one}", metric="mof", prediction=kind)
        for one, kind in zip(NASTY[:2], ("full", "frames"), strict=True)
    )
    shape = Experiment(name="nasty", title=title, label_titles=(f"L {NASTY[2]}",), variants=rows, columns=columns)
    unfinished = {(one, "1", 1): Unfinished("failed", f"ValueError: {one}") for one in NASTY[1:]}
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=2, unfinished=unfinished)
    write_report(standing := Standing.of(plan))
    console = Console(file=io.StringIO(), width=10**5)
    present(standing, console)
    assert isinstance(console.file, io.StringIO)
    shown = " ".join(console.file.getvalue().split())
    page, written, in_latex = (
        (plan.folder / f"nasty.{kind}").read_text(encoding="utf-8") for kind in ("html", "md", "tex")
    )
    assert " ".join(title.split()) in shown
    assert escape(title) in page
    in_latex = in_latex.partition("begin{table}")[2]
    for one in NASTY:
        assert shown.count(" ".join(one.split())) >= 3
        assert escape(one) in page
        assert f"| {in_markdown(one)} |" in written
        assert escaped(one) in in_latex
    with (plan.folder / "nasty.csv").open(encoding="utf-8", newline="") as file:
        assert [row[f"L {NASTY[2]}"] for row in csv.DictReader(file)][: len(NASTY)] == list(NASTY)
    assert len({line.count("|") - line.count("\\|") for line in written.splitlines() if line.startswith("| ")}) == 1
    assert not re.search("[≥λ中🎉]", in_latex)
    assert "<b>" not in page

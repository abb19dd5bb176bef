"""Under every table: whether the seeds are enough, and which collapsed, in all forms of the table, figures and page."""

import csv
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.report.figures import plots as figures
from sweeps.service.report.figures import style as figure_style
from sweeps.service.report.figures.pictures import figure_data
from sweeps.service.report.report import write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.stats.power import detectable_effect, seeds_for
from sweeps.service.tables.best import finished_facts
from sweeps.service.tables.latex import escaped
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import Table
from sweeps.service.text import in_markdown
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.sweeps.small import ROOT
from tests.sweeps.stats.test_comparisons import REAL

MOF = Column(title="MoF", metric="mof")
FRAMES = Column(title="MoF frames", metric="mof", prediction="frames")
ERROR = Column(title="boundary", metric="boundary_error_frames", unit="frames")
TIME = Column(title="s/video", metric="inference_seconds", unit="seconds")
SEEDS = (0.70, 0.71, 0.69, 0.72, 0.68)
LOST = {"good": SEEDS, "unlucky": (0.70, 0.71, 0.15, 0.72, 0.50), "dead": (0.1, 0.11, 0.12, 0.13, 0.14)}
"""Row -> MoF of its seeds; the feature-free baseline has 0.2."""


def planted(
    results: Path,
    rows: Mapping[str, Sequence[float]],
    *,
    columns: tuple[Column, ...] = (MOF, FRAMES),
    splits: tuple[str, ...] = ("1",),
    kind: str = "bars",
    unfinished: Mapping[tuple[str, str, int], Unfinished] | None = None,
) -> Plan:
    """A sweep with these values of the seeds; each further split has 0.05 more."""
    shape = Experiment(
        name="planted",
        title="Planted seeds",
        label_titles=("Row",),
        variants=tuple(Variant(labels=(name,), settings={"loss.smoothing": i}) for i, name in enumerate(rows)),
        columns=columns,
        figure=Figure(kind=kind, x={"scatter": "MoF frames", "curve": "Row"}.get(kind)),  # type: ignore[arg-type]
    )
    n_seeds = max(map(len, rows.values()))
    return make_sweep(
        results,
        shape,
        lambda row, split, seed, _: rows[row][seed - 1] + 0.05 * (int(split) - 1),
        splits=splits,
        n_seeds=n_seeds,
        unfinished=unfinished,
    )


def table_of(results: Path, rows: Mapping[str, Sequence[float]], **more: object) -> Table:
    return Standing.of(planted(results, rows, **more)).tables["planted"]  # type: ignore[arg-type]


def best_facts(results: Path) -> list[dict[str, object]]:
    """What a notice says about the best rows of the sweep."""
    standing = Standing.of(read_plan(ResultsFolder.at(results), "planted"))
    return finished_facts(standing, interrupted=False, budget=())[1]["best"]  # type: ignore[no-any-return]


def numbers(note: str) -> list[float]:
    """The numbers of a note, without those in its names."""
    return [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"'[^']*'", "", note))]


def test_the_difference_of_the_two_best_rows_and_the_seeds_that_would_show_it_are_under_the_table(
    tmp_path: Path,
) -> None:
    rows = {"a": (0.70, 0.72, 0.69, 0.75, 0.71, 0.70), "b": (0.72, 0.69, 0.70, 0.71, 0.68, 0.69), "c": (0.3,) * 6}
    difference, power = table_of(tmp_path, rows).notes.seeds
    paired = 100 * (np.array(rows["a"]) - np.array(rows["b"]))
    mean, deviation = paired.mean(), paired.std(ddof=1)
    assert re.findall(r"'(\w)'", difference) == ["a", "a", "b"], "the third row is shown to be worse"
    assert numbers(difference) == [1, 2, pytest.approx(mean, abs=0.005), 6, pytest.approx(deviation, abs=0.005)]
    smallest = pytest.approx(deviation * detectable_effect(6), abs=0.005)
    assert numbers(power) == [5, 80, seeds_for(mean / deviation), 6, smallest]


def test_the_example_of_the_docs_is_what_these_results_give(tmp_path: Path) -> None:
    with np.load(REAL) as arrays:
        mof = arrays["scores"][:, 0]
    notes = table_of(tmp_path, {"a": mof[:10].tolist(), "b": mof[10:].tolist()}).notes.seeds
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    assert "\n".join(notes[:2]) in page


def test_deviations_over_seeds_and_over_splits_are_told_apart_and_errors_are_best_when_low(tmp_path: Path) -> None:
    """The planted error is 100 frames times one less the MoF."""
    rows = {"a": (0.70, 0.72, 0.69), "b": (0.72, 0.69, 0.68)}
    difference, *_ = table_of(tmp_path, rows, columns=(TIME, ERROR), splits=("1", "2")).notes.seeds
    assert difference.startswith(f"{ERROR.title}: "), "times are not tested"
    assert re.findall(r"'(\w)' less '(\w)'", difference) == [("a", "b")]
    mean, n_seeds, n_splits, over_seeds, over_splits = numbers(difference)
    paired = -100 * (np.array(rows["a"]) - np.array(rows["b"]))
    assert (mean, n_seeds, n_splits) == (pytest.approx(paired.mean(), abs=0.005), 3, 2)
    assert (over_seeds, over_splits) == (pytest.approx(paired.std(ddof=1), abs=0.005), 0)


def test_where_seeds_do_not_allow_an_answer_one_line_says_why(tmp_path: Path) -> None:
    cases = {
        "one seed": {"a": (0.7,), "b": (0.6,)},
        "equal rows": {"a": SEEDS, "b": SEEDS},
        "same difference": {"a": SEEDS, "b": [value - 0.1 for value in SEEDS]},
    }
    for name, rows in cases.items():
        (note,) = table_of(tmp_path / name, rows).notes.seeds
        assert "; " in note, "a reason"
    lost = {("b", "1", seed): Unfinished("failed", "no cake") for seed in range(1, 6)}
    (alone,) = table_of(tmp_path / "alone", {"a": SEEDS, "b": SEEDS}, unfinished=lost).notes.seeds
    assert "'a'" in alone
    (single,) = table_of(tmp_path / "single", {"a": SEEDS}).notes.seeds
    assert {note.partition(", as ")[0] for note in (alone, single)} == {f"{MOF.title}: no difference shown"}
    assert table_of(tmp_path / "times", {"a": SEEDS, "b": SEEDS}, columns=(TIME,)).notes.seeds == ()


def test_a_table_whose_best_row_is_better_than_all_others_does_not_say_that_nothing_is_shown(tmp_path: Path) -> None:
    rows = {"a": [value + 0.1 for value in SEEDS], "b": SEEDS[::-1], "c": SEEDS}
    table = table_of(tmp_path, rows)
    assert [row.bold[0] for row in table.rows[:3]] == [True, False, False]
    assert "difference shown" not in " ".join(table.notes.seeds)
    assert [best["is_shown"] for best in best_facts(tmp_path)] == [True]
    assert numbers(table.notes.seeds[1])[2:4] == [3, 5], "three seeds are enough, and five the fewest that are tested"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    plan = planted(tmp_path_factory.mktemp("lost"), LOST)
    write_report(Standing.of(plan))
    return plan


def test_collapsed_seeds_are_counted_in_their_row_and_all_values_keep_them(lost: Plan) -> None:
    table = Standing.of(lost).tables["planted"]
    rows = {row.name: row for row in table.rows}
    assert [best["is_shown"] for best in best_facts(lost.results.path)] == [False]
    assert rows["good"].collapsed == ()
    assert rows["unlucky"].collapsed == (("1", 3), ("1", 5))
    assert rows["dead"].collapsed_seeds == {1, 2, 3, 4, 5}
    for name, values in LOST.items():
        summary = rows[name].summaries[0]
        assert summary is not None
        assert (summary.mean, summary.n) == (pytest.approx(np.mean(values)), 5)
    note = table.notes.seeds[-1]
    assert "'good'" not in note
    unlucky, dead = note.split("'unlucky'")[1].split("; ")[:2]
    assert numbers(unlucky) == [2, 5, 3, 5, 55.6, 24.5, 71, 1]
    assert re.findall(r"'\w+'", dead) == ["'dead'"]


def test_collapsed_seeds_are_marked_in_every_form_of_the_table(lost: Plan) -> None:
    folder, table = lost.folder, Standing.of(lost).tables["planted"]
    marks = {row.name: row.seeds_text for row in table.rows[:3]}
    assert [numbers(mark) for mark in marks.values()] == [[5], [5, 2], [5, 5]]
    markdown, latex = ((folder / f"planted.{kind}").read_text() for kind in ("md", "tex"))
    page = (folder / "planted.html").read_text()
    for name, mark in marks.items():
        assert next(line for line in markdown.splitlines() if line.startswith(f"| {name} ")).endswith(f"| {mark} |")
        assert next(line for line in latex.splitlines() if line.startswith(f"{name} ")).endswith(f"& {mark} \\\\")
        assert f">{mark}</td>" in page
    for note in table.notes.seeds:
        assert f"- {in_markdown(note)}" in markdown
        assert f"% {note}" in latex
        assert f"{escaped(note)}." in latex
        assert escape(note) in page
    with (folder / "planted.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["seeds"], row["collapsed"]) for row in rows[:4]] == [("5", "0"), ("5", "2"), ("5", "5"), ("", "")]


def test_collapsed_trials_are_marked_in_parquet_and_in_the_trials_of_the_page(lost: Plan) -> None:
    trials = pq.read_table(lost.folder / "trials.parquet").to_pylist()
    found = [(row["row"], row["seed"]) for row in trials if row["collapsed"] is True]
    assert sorted(found) == [*(("dead", seed) for seed in range(1, 6)), ("unlucky", 3), ("unlucky", 5)]
    assert {row["collapsed"] for row in trials} == {True, False}
    section = (
        (lost.folder / "planted.html").read_text().partition("<section id='trials'>")[2].partition("</section>")[0]
    )
    states = re.findall(r"<td[^>]*>(finished[^<]*)</td>", section)
    assert len(states) == len(trials)
    assert [state != "finished" for state in states] == [row["collapsed"] for row in trials]


@pytest.mark.parametrize("kind", ["bars", "scatter", "curve"])
def test_collapsed_seeds_are_crossed_in_figures(kind: str, tmp_path: Path) -> None:
    plan = planted(tmp_path, LOST, kind=kind)
    data = figure_data(plan.parts[0], Standing.of(plan))
    assert [row.collapsed for row in data.rows] == [(), (False, False, True, False, True), (True,) * 5]
    with figure_style.style():
        (axes,) = getattr(figures, kind)(data).axes
    crosses = [one for one in axes.collections if one.get_label() == "collapsed seeds"]
    values = np.concatenate([one.get_offsets()[:, 0 if kind == "bars" else 1] for one in crosses])
    assert values.tolist() == pytest.approx([15, 50, 10, 11, 12, 13, 14])
    assert "collapsed seeds" in [text.get_text() for text in axes.figure.legends[0].get_texts()]


def test_a_trial_of_a_seed_that_lacks_a_split_is_marked_as_well(tmp_path: Path) -> None:
    """The seed is in no mean, so the mean without it is the same."""
    missing = {("a", "2", 1): Unfinished("failed", "no cake")}
    plan = planted(tmp_path, {"a": (0.1, 0.7, 0.72), "b": SEEDS[:3]}, splits=("1", "2"), unfinished=missing)
    table = Standing.of(plan).tables["planted"]
    assert table.rows[0].collapsed == (("1", 1),)
    assert numbers(table.notes.seeds[-1].split("'a'")[1])[:3] == [1, 3, 1]
    assert table.collapsed == {(("a",), "1", 1)}


def test_a_scatter_has_the_seeds_with_both_scores(tmp_path: Path) -> None:
    plan = planted(tmp_path, {"a": SEEDS, "b": SEEDS}, kind="scatter")
    cell = next(cell for cell in plan.cells if (cell.variant.name, cell.seed) == ("b", 2))
    standing = Standing.of(plan)
    del standing.results[cell.key].scores["frames"]  # type: ignore[attr-defined]
    data = figure_data(plan.parts[0], Standing.with_results(plan, standing.results))
    assert [(len(row.x), len(row.y)) for row in data.rows] == [(5, 5), (4, 4)]

"""Summary lines after a sweep: the best row and trial of planted numbers, and commands that fit them."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mucon.cli import build_parser
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.baselines import BLIND
from sweeps.service.tables.best import best_lines, command_lines
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.table import make_table
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.json_files import write_json
from sweeps.service.trials.results_folder import ResultsFolder

BOX = Variant(labels=("box", ""))
BEAM = Variant(labels=("bell", "beam"), settings={"mask.shape": "bell", "decoding.beam": 10}, prediction="segments")
ALIGNED = Variant(labels=("bell", "aligned"), settings={"mask.shape": "bell"}, task="alignment")
SPLIT = SplitData(fingerprint="f", blind={"mof": 0.3}, commonest="rest", commonest_share=0.4, n_train=3, n_test=2)


COMMANDS = ["choice", "best trial", "evaluate", "predict", "export"]
NOT_SHOWN = "no difference shown"
NULL_TABLES = 200
"""Simulated tables of equal rows; with 1,000 for each size, 4.9 %, 4.9 % and 0.3 % named a best row."""


def cell(variant: Variant, seed: int, split: str = "1") -> Cell:
    name = "".join(variant.labels)
    return Cell(variant=variant, split=split, seed=seed, identity=f"{name}{split}{seed}", evaluation="e")


def lines_of(
    values: dict[Cell, float | None],
    column: Column,
    results: Path,
    names: tuple[str, ...] = ("mine",),
    settings: dict[tuple[str, ...], Mapping[str, object]] | None = None,
) -> list[str]:
    """The lines after a sweep whose cells have these values in the first column of each table."""
    variants = tuple(dict.fromkeys(cell.variant for cell in values))
    parts = tuple(
        Part(
            experiment=Experiment(
                name=name, title="Mine", label_titles=("Shape", "How"), variants=variants, columns=(column,)
            ),
            cells=tuple(values),
            settings=settings or {},
        )
        for name in names
    )
    plan = Plan(
        name="mine",
        title="Mine",
        parts=parts,
        splits={"1": SPLIT, "2": SPLIT},
        results=ResultsFolder(results),
        store="/data/my store",
    )
    cell_results = {
        cell.key: CellResult(State.FAILED, "no cake")
        if value is None
        else CellResult(State.FINISHED, None, {p: {column.metric: value} for p in ("full", "segments")})
        for cell, value in values.items()
    }
    tables = {
        part.experiment.name: make_table(part.experiment, part.cells, cell_results, plan.splits) for part in parts
    }
    standing = Standing(plan=plan, results=cell_results, tables=tables)
    return [*best_lines(standing), *command_lines(standing)]


def line(lines: list[str], head: str) -> str:
    """The text of the only line with a head."""
    (text,) = [text for text in lines if text.strip().startswith(f"{head}:")]
    return text.partition(":")[2].strip()


def heads(lines: list[str]) -> list[str]:
    return [text.strip().partition(":")[0] for text in lines]


def test_the_row_with_the_best_mean_is_named_with_its_best_trial_and_commands(tmp_path: Path) -> None:
    values = {cell(BOX, 1): 0.9, cell(BOX, 2): 0.1, cell(BEAM, 1): 0.6, cell(BEAM, 2): 0.7, cell(BEAM, 3): None}
    run = tmp_path / "trials" / "bellbeam12" / "run"
    lines = lines_of(values, Column(title="MoF", metric="mof"), tmp_path)
    assert heads(lines) == ["best mean", f"{NOT_SHOWN} from the other row", *COMMANDS]
    row, trial = line(lines, "best mean").split("; ")
    assert row == f"{BEAM.name}, MoF 65.0±7.1 (2 seeds)"
    assert trial.endswith("split 1, seed 2, 70.0")
    assert line(lines, "best trial") == str(run.parent)
    evaluate, predict = line(lines, "evaluate"), line(lines, "predict")
    chosen = ["--set", "decoding.beam=10"]
    assert shlex.split(evaluate) == [
        *("mucon", "evaluate", str(run), "--store", "/data/my store", "--split", "1"),
        *chosen,
    ]
    assert shlex.split(predict) == ["mucon", "predict", str(run), "FEATURES.npy", "--prediction", "segments", *chosen]
    assert shlex.split(line(lines, "export")) == [
        *("mucon-sweeps", "export", "mine", "--best", "segments.mof", "--row", BEAM.name, "--split", "1"),
        *("--results", str(tmp_path), "--out", "MODEL"),
    ]
    for command in (evaluate, predict):
        assert build_parser().parse_args(shlex.split(command)[1:]).settings == ["decoding.beam=10"]


def test_rows_that_equal_the_best_and_a_baseline_that_it_does_not_beat_are_reported(tmp_path: Path) -> None:
    column = Column(title="MoF", metric="mof")
    lines = lines_of({cell(BOX, 1): 0.3, cell(BEAM, 1): 0.3}, column, tmp_path)
    assert heads(lines)[:5] == ["best mean", f"{NOT_SHOWN} from the other row", "equal", "warning", "choice"]
    assert line(lines, "best mean").startswith(f"{BOX.name.removesuffix(', ')}, ")
    assert line(lines, "equal") == repr(BEAM.name)
    assert repr(BLIND) in line(lines, "warning")
    assert line(lines, "warning").endswith(" 30.0")
    better = lines_of({cell(BOX, 1): 0.31, cell(BEAM, 1): 0.3}, column, tmp_path)
    assert heads(better) == ["best mean", f"{NOT_SHOWN} from the other row", *COMMANDS]


def values_of(rows: Mapping[Variant, Sequence[float]]) -> dict[Cell, float | None]:
    return {cell(row, seed): value for row, values in rows.items() for seed, value in enumerate(values)}


def test_a_row_is_called_the_best_only_if_it_is_shown_to_be_better_than_all_others(tmp_path: Path) -> None:
    column = Column(title="MoF", metric="mof")
    noise = np.array([0.01, -0.02, 0.0, 0.02, -0.01])
    winner = lines_of(values_of({BOX: 0.5 + noise, BEAM: 0.7 + noise, ALIGNED: 0.5 - noise}), column, tmp_path)
    assert heads(winner) == ["best", *COMMANDS]
    assert line(winner, "best").startswith(BEAM.name)
    two = lines_of(values_of({BOX: 0.5 + noise, BEAM: 0.7 + noise, ALIGNED: 0.699 - noise}), column, tmp_path)
    assert heads(two)[:2] == ["best mean", f"{NOT_SHOWN} from 1 of 2 other rows"]
    few = lines_of(values_of({BOX: 0.5 + noise[:4], BEAM: 0.7 + noise[:4]}), column, tmp_path)
    assert heads(few)[:2] == ["best mean", f"{NOT_SHOWN} from the other row"]
    alone = lines_of(values_of({BOX: 0.5 + noise}) | {cell(BEAM, 1): None}, column, tmp_path)
    assert heads(alone)[0] == "best mean"
    assert heads(alone)[1].startswith(f"{NOT_SHOWN} as ")
    assert heads(lines_of(values_of({BOX: 0.5 + noise}), column, tmp_path)) == ["best", *COMMANDS[1:]], "the only row"


@pytest.mark.parametrize(("n_rows", "n_seeds", "n_splits"), [(2, 5, 1), (2, 10, 2), (4, 5, 1)])
def test_of_tables_whose_rows_are_equal_at_most_five_percent_name_a_best_row(
    n_rows: int, n_seeds: int, n_splits: int, tmp_path: Path
) -> None:
    random = np.random.default_rng(n_rows + n_seeds)
    rows = [Variant(labels=(f"row {i}", ""), settings={"loss.smoothing": i}) for i in range(n_rows)]
    cells = [cell(row, seed, str(1 + s)) for row in rows for seed in range(n_seeds) for s in range(n_splits)]
    winners = 0
    for _ in range(NULL_TABLES):
        values = dict(zip(cells, random.normal(0.6, 0.04, len(cells)), strict=True))
        winners += heads(lines_of(values, Column(title="MoF", metric="mof"), tmp_path))[0] == "best"
    assert stats.binomtest(winners, NULL_TABLES, 0.05, alternative="greater").pvalue > 0.01


def test_of_seconds_the_least_is_best_and_the_task_is_in_the_command(tmp_path: Path) -> None:
    column = Column(title="s/video", metric="inference_seconds", unit="seconds")
    lines = lines_of({cell(BOX, 1): 3.0, cell(ALIGNED, 1): 1.0}, column, tmp_path)
    row, trial = line(lines, "best mean").split("; ")
    assert heads(lines)[1] == f"{NOT_SHOWN} from the other row ({column.title} is not tested)"
    assert row == f"{ALIGNED.name}, s/video 1 (1 seed)"
    assert trial.endswith("split 1, seed 1, 1")
    assert shlex.split(line(lines, "evaluate"))[-4:] == ["--split", "1", "--task", "alignment"]


def test_a_choice_of_decoding_that_the_checkpoint_has_is_not_repeated(tmp_path: Path) -> None:
    checkpoint = tmp_path / "trials" / "bellbeam11" / "run" / "checkpoint"
    checkpoint.mkdir(parents=True)
    write_json(checkpoint / "config.json", {"decoding": {"beam": 10}})
    lines = lines_of({cell(BEAM, 1): 0.5}, Column(title="MoF", metric="mof"), tmp_path)
    assert "--set" not in line(lines, "evaluate")


def test_the_decoding_of_the_command_line_is_in_the_commands_where_the_plan_has_it(tmp_path: Path) -> None:
    settings = {BEAM.labels: {"mask.shape": "bell", "decoding.beam": 20}}
    lines = lines_of({cell(BEAM, 1): 0.5}, Column(title="MoF", metric="mof"), tmp_path, settings=settings)
    assert shlex.split(line(lines, "evaluate"))[-2:] == ["--set", "decoding.beam=20"]


def test_a_row_with_a_choice_that_was_ignored_still_has_its_commands(tmp_path: Path) -> None:
    row = Variant(labels=("old", "row"), settings={"decoding.method": "published", "decoding.beam": 2})
    lines = lines_of({cell(row, 1): 0.5}, Column(title="MoF", metric="mof"), tmp_path)
    settings = shlex.split(line(lines, "evaluate"))[-4:]
    assert settings == ["--set", "decoding.method=published", "--set", "decoding.beam=2"]


def test_each_of_several_tables_has_its_best_row(tmp_path: Path) -> None:
    lines = lines_of({cell(BOX, 1): 0.5}, Column(title="MoF", metric="mof"), tmp_path, names=("mine", "yours"))
    assert [head for head in heads(lines) if head.startswith("best")] == [
        *("best of mine", "best of yours"),
        *("best trial of mine", "best trial of yours"),
    ]


def test_a_table_without_any_value_has_no_best(tmp_path: Path) -> None:
    assert lines_of({cell(BOX, 1): None}, Column(title="MoF", metric="mof"), tmp_path) == []

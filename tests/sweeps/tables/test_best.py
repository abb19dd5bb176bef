"""What is said after a sweep: the best row and trial of planted numbers, and commands that fit them."""

from pathlib import Path

from mucon.cli import build_parser
from sweeps.service.plan.cells import Cell
from sweeps.service.plan.plan import Part, Plan
from sweeps.service.plan.recordings import SplitData
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.best import best_lines
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State, write_json

BOX = Variant(labels=("box", ""))
BEAM = Variant(labels=("bell", "beam"), settings={"mask.shape": "bell", "decoding.beam": 10}, prediction="segments")
ALIGNED = Variant(labels=("bell", "aligned"), settings={"mask.shape": "bell"}, task="alignment")
SPLIT = SplitData(fingerprint="f", blind={"mof": 0.3}, commonest="rest", commonest_share=0.4, n_train=3, n_test=2)


def cell(variant: Variant, seed: int, split: str = "1") -> Cell:
    name = "".join(variant.labels)
    return Cell(variant=variant, split=split, seed=seed, identity=f"{name}{split}{seed}", evaluation="e")


def said(values: dict[Cell, float | None], column: Column, results: Path, name: str = "mine") -> list[str]:
    variants = tuple(dict.fromkeys(cell.variant for cell in values))
    shape = Experiment(name=name, title="Mine", label_titles=("Shape", "How"), variants=variants, columns=(column,))
    part = Part(experiment=shape, cells=tuple(values))
    plan = Plan(
        name=name, title="Mine", parts=(part,), splits={"1": SPLIT, "2": SPLIT}, results=results, store="/data/my store"
    )
    known = {
        cell.key: CellResult(State.FAILED, "no cake")
        if value is None
        else CellResult(State.FINISHED, None, {p: {column.metric: value} for p in ("full", "segments")})
        for cell, value in values.items()
    }
    return best_lines(plan, plan.tables(known), known, {})


def test_the_row_with_the_best_mean_is_named_with_its_best_trial_and_commands(tmp_path: Path) -> None:
    values = {cell(BOX, 1): 0.9, cell(BOX, 2): 0.1, cell(BEAM, 1): 0.6, cell(BEAM, 2): 0.7, cell(BEAM, 3): None}
    run = tmp_path / "trials" / "bellbeam12" / "run"
    first, where, evaluate, predict, export = said(values, Column(title="MoF", metric="mof"), tmp_path)
    assert first == "best: bell, beam, MoF 65.0±7.1; its best trial: split 1, seed 2, 70.0"
    assert where == f"  where:    {run.parent}"
    assert evaluate == f"  evaluate: mucon evaluate {run} --store '/data/my store' --split 1 --set decoding.beam=10"
    assert predict == f"  predict:  mucon predict {run} FEATURES.npy --prediction segments --set decoding.beam=10"
    assert export.startswith(f"  export:   cp -r {run} MODEL ")
    for line in (evaluate, predict):
        parsed = build_parser().parse_args(line.partition("mucon ")[2].replace("'/data/my store'", "/data").split())
        assert parsed.settings == ["decoding.beam=10"]


def test_rows_that_are_level_with_the_best_and_a_baseline_that_it_does_not_beat_are_told(tmp_path: Path) -> None:
    column = Column(title="MoF", metric="mof")
    first, level, beware, *_ = said({cell(BOX, 1): 0.3, cell(BEAM, 1): 0.3}, column, tmp_path)
    assert first.startswith("best: box, ")
    assert level == "  level:    'bell, beam'"
    assert beware == "  beware:   no better than 'transcript prior, equal lengths', which sees no feature: 30.0"
    better = said({cell(BOX, 1): 0.31, cell(BEAM, 1): 0.3}, column, tmp_path)
    assert [line.split()[0] for line in better] == ["best:", "where:", "evaluate:", "predict:", "export:"]


def test_of_seconds_the_least_is_best_and_the_task_is_told(tmp_path: Path) -> None:
    column = Column(title="s/video", metric="inference_seconds", unit="seconds")
    first, _, evaluate, *_ = said({cell(BOX, 1): 3.0, cell(ALIGNED, 1): 1.0}, column, tmp_path)
    assert first == "best: bell, aligned, s/video 1; its best trial: split 1, seed 1, 1"
    assert evaluate.endswith("--split 1 --task alignment")


def test_a_choice_of_decoding_that_the_checkpoint_has_is_not_repeated(tmp_path: Path) -> None:
    checkpoint = tmp_path / "trials" / "bellbeam11" / "run" / "checkpoint"
    checkpoint.mkdir(parents=True)
    write_json(checkpoint / "config.json", {"decoding": {"beam": 10}})
    _, _, evaluate, *_ = said({cell(BEAM, 1): 0.5}, Column(title="MoF", metric="mof"), tmp_path)
    assert "--set" not in evaluate


def test_a_table_without_any_value_has_no_best(tmp_path: Path) -> None:
    assert said({cell(BOX, 1): None}, Column(title="MoF", metric="mof"), tmp_path) == []

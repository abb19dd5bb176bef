"""Sweeps from files: the rows that they describe, and one real run."""

import json
from pathlib import Path

import pytest
import yaml

from mucon import recipes
from mucon.cli import main as mucon
from sweeps.service.cli import main
from sweeps.service.commands.run import asked_seeds, script_parser
from sweeps.service.plan.plan import make_plan
from sweeps.service.spec.columns import MUCON_COLUMNS
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.files.reading import read_experiment
from sweeps.service.spec.recipe import Recipe, with_recipe
from sweeps.service.spec.seeds import SeedRule, Seeds
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.refusals import refused
from tests.helpers.sweep_files import problems, table
from tests.sweeps import small

WHOLE = """
title: More or less smoothing
name: smooth
recipe: hollywood
set: {training: {epochs: 30}}
variants:
  - {name: default}
  - {name: aligned, set: {loss.length: 0}, prediction: frames, task: alignment}
zip:
  training.lr_drop_epoch: [10, none]
  training.learning_rate: [1e-2, 0.02]
grid:
  loss.smoothing: [0.1, 0.2]
  backbone.pool_after: [[1, 2], "1,2,4"]
seeds: 3
splits: [1, two]
metrics: [mof, frames.edit, {metric: boundary_error_frames, title: border}]
default: default, 10, 1e-2, 0.1, 1,2
figure: {kind: segmentations, recordings: [a, b]}
"""


def test_halves_of_characters_are_joined_and_numbers_of_texts_are_taken_as_they_are_written(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        'title: 1.10\nsplits: [01, 2]\nvariants: [{name: "party \\ud83c\\udf89"}, {name: 1_000, task: alignment}]',
    )
    assert (found.title, found.splits) == ("1.10", ("01", "2"))
    assert [row.name for row in found.variants] == ["party \N{PARTY POPPER}", "1_000"]


def test_rows_are_every_combination_of_variants_zip_and_grid(tmp_path: Path) -> None:
    found = table(tmp_path, WHOLE)
    assert (found.name, found.title, found.seeds, found.splits) == ("smooth", "More or less smoothing", 3, ("1", "two"))
    assert found.base == found.demo_base == Recipe("hollywood", {"training.epochs": 30})
    settings = ("training.lr_drop_epoch", "training.learning_rate", "loss.smoothing", "backbone.pool_after")
    assert found.label_titles == ("Variant", *settings)
    assert len(found.variants) == 2 * 2 * 2 * 2
    first, last = found.variants[0], found.variants[-1]
    assert first.labels == ("default", "10", "1e-2", "0.1", "1,2")
    assert last.labels == ("aligned", "none", "0.02", "0.2", "1,2,4")
    assert (last.prediction, last.task) == ("frames", "alignment")
    config = found.base().with_values(dict(last.settings))
    assert (config.training.epochs, config.training.lr_drop_epoch, config.training.learning_rate) == (30, None, 0.02)
    assert (config.loss.smoothing, config.loss.length, config.backbone.pool_after) == (0.2, 0.0, (1, 2, 4))
    assert [(column.title, column.prediction, column.unit) for column in found.columns] == [
        ("MoF", "full", "percent"),
        ("Edit frames", "frames", "percent"),
        ("border", "full", "frames"),
    ]
    assert found.default_row == "default, 10, 1e-2, 0.1, 1,2"
    assert found.figure == Figure(kind="segmentations", recordings=("a", "b"))


def test_the_results_may_decide_the_seeds_and_options_replace_the_rule(tmp_path: Path) -> None:
    found = table(tmp_path, "seeds: auto:3..15\nuntil: 0.5\ngrid: {loss.smoothing: [0.05, 0.1]}")
    assert found.seed_rule == SeedRule(least=3, most=15, until=0.5)

    def seeds(*words: str) -> Seeds:
        return asked_seeds(found, script_parser(found, None).parse([*words]))

    assert seeds() == seeds("--store", "x") == Seeds(15, found.seed_rule)
    assert seeds("--seeds", "4") == Seeds(4)
    assert seeds("--seeds", "auto:2..4") == Seeds(4, SeedRule(least=2, most=4, until=0.5))
    assert seeds("--until", "2") == Seeds(15, SeedRule(least=3, most=15, until=2.0))


def test_what_is_left_out_is_as_in_the_packages_own_sweeps(tmp_path: Path) -> None:
    found = table(tmp_path, "grid: {loss.smoothing: [0.05, 0.1]}")
    assert (found.name, found.title, found.columns, found.splits) == ("mine", "mine", MUCON_COLUMNS, ("1",))
    assert (found.base, found.demo_base) == (Recipe("weak"), Recipe("demo"))
    assert (found.seeds, found.demo_seeds) == (5, 2)
    assert found.with_default_row(found.base(), {}).default_row == "0.1", "it leaves the recipe unchanged"
    assert table(tmp_path, "grid: {loss.smoothing: [0.2, 0.3]}\nsplits: all").splits == ("all",)


def test_common_settings_are_under_the_rows_with_any_recipe(tiny_store: Path, tmp_path: Path) -> None:
    text = "{set: {training.epochs: 3, loss.length: 0.5}, grid: {loss.length: [0.5, 2], mask.shape: [box, bell]}}"
    sweep = table(tmp_path, text)
    assert all("training.epochs" not in row.settings for row in sweep.variants)
    for base, recipe in ((sweep.base, recipes.breakfast), (with_recipe(sweep.base, "hollywood"), recipes.hollywood)):
        plan, trials = make_plan(
            sweep,
            store=tiny_store,
            base=lambda _, __, base=base: base(),
            settings={"backbone.pool_after": "1"},
            seeds=[1],
            splits=["1"],
            results=ResultsFolder(tmp_path / "results"),
        )
        settings = {"training.epochs": 3, "backbone.pool_after": "1", "seed": 1}
        assert [trial.config for trial in trials.values()] == [
            recipe().with_values({**settings, "loss.length": length, "mask.shape": shape})
            for length in (0.5, 2)
            for shape in ("box", "bell")
        ]
        assert plan.parts[0].experiment.default_row == "0.5, box"


def test_a_python_file_is_a_sweep_too(tmp_path: Path) -> None:
    script = small.own_script(tmp_path, "ours", {"a": {}, "b": {"mask.shape": "bell"}})
    sweep = read_experiment(script)
    assert (sweep.name, len(sweep.experiments[0].variants)) == ("ours", 2)
    with refused("duplicate", place=f"{script}: name", value="ours", n=1):
        read_experiment(script, {"ours"})
    empty = "from sweeps.api import Collection\nEXPERIMENT = Collection(name='c', title='c', experiments=())"
    for text, rule, place, value in (
        ("A = 1", "missing", "EXPERIMENT", None),
        ("EXPERIMENT = 1", "type", "EXPERIMENT", "int"),
        ("def", "unreadable", "line 1", "invalid syntax"),
        (empty, "missing", "tables", None),
    ):
        (problem,) = problems(tmp_path, text, "a.py")
        assert (problem.rule, problem.place, problem.value) == (rule, place, value)


def test_the_help_explains_the_file_with_an_example_that_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(None, ["run", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    example = text.partition("required:\n")[2].partition("\nThe rows are")[0]
    assert len(table(tmp_path, example).variants) == 2 * 2 * 6


def test_the_documented_file_is_a_sweep(tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (small.ROOT / "docs" / "sweeps.md").read_text()
    example = text.partition("```yaml\n")[2].partition("```")[0]
    file = tmp_path / example.partition("\n")[0].removeprefix("# ")
    assert f"mucon-sweeps run {file.name} --store" in text
    file.write_text(example)
    words = ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--device", "cpu", "--dry-run"]
    assert main(None, ["run", str(file), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].partition(": ")[::2] == ("smoothing", yaml.safe_load(example)["title"])
    assert sum("  missing   " in line for line in lines) == 3 * 2 * 3
    assert any(line.startswith("to run: 18 trainings") for line in lines)


@pytest.mark.service
def test_a_file_is_run_from_its_estimate_to_the_commands_that_use_its_best_trial(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("seeds: 1\nmetrics: [mof, frames.mof]\ngrid: {mask.shape: [box, bell]}\n")
    line = small.untracked(small.command(Path("-m"), tiny_store, tmp_path / "results"))
    line[2:2] = ["sweeps", "run", str(file)]
    assert main(None, [*line[3:], "--dry-run"]) == 0
    assert "to run: 2 trainings" in capsys.readouterr().out
    ran = small.run([*line, "--max-concurrent", "1"])
    assert (ran.returncode, ran.stderr) == (0, "")
    (best,) = (line for line in ran.stdout.splitlines() if line.startswith("best mean: "))
    (evaluate,) = (line.split()[2:] for line in ran.stdout.splitlines() if line.startswith("  evaluate: mucon "))
    assert mucon([*evaluate, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert best.endswith(f"{100 * scores['full']['mof']:.1f}")
    for identity, records in small.journals(tmp_path / "results").items():
        environment = next(record for record in records if record["kind"] == "environment")
        assert environment["command"].startswith(f"mucon-sweeps run {file} --store"), identity
    assert main(None, [*line[3:], "--dry-run"]) == 0
    assert "to run: nothing" in capsys.readouterr().out

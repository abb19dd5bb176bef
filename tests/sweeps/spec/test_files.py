"""User-defined sweeps from files: their rows, their problems, and one real run."""

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from mucon import recipes
from mucon.cli import main as mucon
from mucon.errors import InputError, Problem
from sweeps.service.cli import main
from sweeps.service.commands.run import asked_seeds, script_parser
from sweeps.service.plan.plan import make_plan
from sweeps.service.spec.columns import MUCON_COLUMNS
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.files.reading import read_experiment
from sweeps.service.spec.recipe import Recipe, with_recipe
from sweeps.service.spec.seeds import SeedRule, Seeds
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.refusals import ANY, refused
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


BOMB = "".join(f"a{i}: &a{i} [{', '.join(9 * [f'*a{i - 1}'])}]\n" for i in range(1, 10))
"""A value with 9 ** 9 parts in a few lines."""


def read(folder: Path, text: str, name: str = "mine.yaml", taken: tuple[str, ...] = ()) -> Experiment | Collection:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return read_experiment(path, taken)


def table(folder: Path, text: str) -> Experiment:
    found = read(folder, text)
    assert isinstance(found, Experiment)
    return found


def problems(folder: Path, text: str, name: str = "mine.yaml", taken: tuple[str, ...] = ()) -> list[Problem]:
    """The problems of a file; each place begins with the file's name, which is removed."""
    with pytest.raises(InputError) as raised:
        read(folder, text, name, taken)
    file = str(folder / name)
    assert all(problem.place.startswith(file) for problem in raised.value.problems)
    assert all(problem.message or problem.expected for problem in raised.value.problems)
    return [
        replace(problem, place=problem.place.removeprefix(file).removeprefix(": ")) for problem in raised.value.problems
    ]


ROWS = "grid: {mask.shape: [box]}\n"


def test_halves_of_characters_are_joined_and_numbers_of_texts_are_taken_as_they_are_written(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        'title: 1.10\nsplits: [01, 2]\nvariants: [{name: "party \\ud83c\\udf89"}, {name: 1_000, task: alignment}]',
    )
    assert (found.title, found.splits) == ("1.10", ("01", "2"))
    assert [row.name for row in found.variants] == ["party \N{PARTY POPPER}", "1_000"]


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ('title: "half \\ud83c"', "title", ANY),
        ('title: "\\e[31mred"', "title", ANY),
        ('variants: [{name: "nul \\0"}]', "variants[0].name", ANY),
        ('figure: {kind: curve, x_title: "a\\x07"}', "figure.x_title", ANY),
        ('"k\\x01": 1', "line 2", ANY),
        ("set: {training.epochs: 010}", "set.training.epochs", "010"),
        ("set: {training.epochs: 1:30}", "set.training.epochs", "1:30"),
        ("seeds: 0x3", "seeds", "0x3"),
        ("zip: {training.epochs: [2024-01-01]}", "zip.training.epochs[0]", "2024-01-01"),
        (f"name: {'a' * 201}", "name", "a" * 201),
    ],
)
def test_texts_that_cannot_be_shown_and_numbers_that_yaml_reads_otherwise_are_refused_with_their_key(
    tmp_path: Path, text: str, place: str, value: object
) -> None:
    (problem,) = problems(tmp_path, f"{ROWS}{text}")
    assert problem.place == place
    assert value is ANY or problem.value == value
    assert str(problem).isprintable()


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


@pytest.mark.parametrize(
    ("text", "rule", "place", "value"),
    [
        ("", "type", "", None),
        ("- a", "type", "", ["a"]),
        ("title: x", "missing", "", None),
        ("gird: {loss.smoothing: [1]}", "unknown", "gird", "gird"),
        ("grid: {loss.smothing: [1]}", "unknown", "grid.loss.smothing", "loss.smothing"),
        ("grid: {loss: {smothing: [1]}}", "unknown", "grid.loss.smothing", "loss.smothing"),
        ("grid: [1]", "type", "grid", [1]),
        ("grid: {loss.smoothing: [0.1, fast]}", "type", "grid.loss.smoothing[1]", "fast"),
        ("grid: {training.epochs: [0, 5]}", "range", "grid.training.epochs[0]", 0),
        ("grid: {mask.shape: [box, bel]}", "type", "grid.mask.shape[1]", "bel"),
        ("grid: {loss.smoothing: []}", "missing", "grid.loss.smoothing", []),
        ("grid: {loss.smoothing: 0.1}", "type", "grid.loss.smoothing", 0.1),
        ("grid: {seed: [1, 2]}", "conflict", "grid.seed", [1, 2]),
        ("grid: {loss.smoothing: [0.1, 0.10]}", "duplicate", "rows", "0.1"),
        ("grid: {loss.smoothing: [0, 0.0]}", "duplicate", "", ("0", "0.0")),
        (
            f"grid: {{training.epochs: {list(range(1, 41))}, loss.length: {list(range(30))}}}",
            "range",
            "",
            40 * 30,
        ),
        (
            "zip: {training.epochs: [1, 2], loss.length: [1]}",
            "shape",
            "zip",
            {"training.epochs": 2, "loss.length": 1},
        ),
        ("{zip: {loss.length: [1, 2]}, grid: {loss.length: [3]}}", "duplicate", "grid.loss.length", "loss.length"),
        (
            "{variants: [{name: a, set: {loss.length: 1}}], grid: {loss.length: [3]}}",
            "duplicate",
            "grid.loss.length[0]",
            "loss.length",
        ),
        ("variants: []", "type", "variants", []),
        ("variants: [a]", "type", "variants[0]", "a"),
        ("variants: [{set: {loss.length: 1}}]", "missing", "variants[0].name", None),
        ("variants: [{name: no}]", "type", "variants[0].name", False),
        ("variants: [{name: a}, {name: a}]", "duplicate", "variants[1].name", "a"),
        ("variants: [{name: a}, {name: b}]", "duplicate", "", ("a", "b")),
        ("variants: [{name: a, sett: {}}]", "unknown", "variants[0].sett", "sett"),
        ("variants: [{name: a, prediction: frame}]", "unknown", "variants[0].prediction", "frame"),
        ("variants: [{name: a, task: align}]", "unknown", "variants[0].task", "align"),
        ("{set: {loss.length: x}, variants: [{name: a}]}", "type", "set.loss.length", "x"),
        ("{set: {backbone.n_layers: 4}, variants: [{name: a}]}", "range", "set: backbone.pool_after", ANY),
        ("{recipe: breakfst, variants: [{name: a}]}", "unknown", "recipe", "breakfst"),
        ("{recipe: [demo], variants: [{name: a}]}", "type", "recipe", ["demo"]),
        ("{name: a b, variants: [{name: a}]}", "range", "name", "a b"),
        ("{name: taken, variants: [{name: a}]}", "duplicate", "name", "taken"),
        ("{title: [a], variants: [{name: a}]}", "type", "title", ["a"]),
        ("{seeds: 0, variants: [{name: a}]}", "range", "seeds", 0),
        ("{seeds: yes, variants: [{name: a}]}", "type", "seeds", True),
        ("{seeds: [1, 2], variants: [{name: a}]}", "type", "seeds", [1, 2]),
        ("{seeds: auto:5..3, variants: [{name: a}]}", "range", "seeds", "auto:5..3"),
        ("{seeds: auto:3..5, until: 0, variants: [{name: a}]}", "range", "until", "0"),
        ("{seeds: 3, until: 1.0, variants: [{name: a}]}", "conflict", "until", 1.0),
        ("{splits: [], variants: [{name: a}]}", "type", "splits", []),
        ("{splits: [1, 1], variants: [{name: a}]}", "duplicate", "splits", "1"),
        ("{metrics: mof, variants: [{name: a}]}", "type", "metrics", "mof"),
        ("{metrics: [3], variants: [{name: a}]}", "type", "metrics[0]", 3),
        ("{metrics: [moff], variants: [{name: a}]}", "unknown", "metrics[0]", "moff"),
        ("{metrics: [mof, frame.mof], variants: [{name: a}]}", "unknown", "metrics[1]", "frame"),
        ("{metrics: [mof, mof], variants: [{name: a}]}", "duplicate", "metrics[1]", "MoF"),
        ("{metrics: [{metric: mof, unti: x}], variants: [{name: a}]}", "unknown", "metrics[0].unti", "unti"),
        ("{metrics: [{metric: mof, title: [x]}], variants: [{name: a}]}", "type", "metrics[0].title", ["x"]),
        ("{figure: bars, variants: [{name: a}]}", "type", "figure", "bars"),
        ("{figure: {kid: bars}, variants: [{name: a}]}", "unknown", "figure.kid", "kid"),
        ("{figure: {kind: [bars]}, variants: [{name: a}]}", "type", "figure.kind", ["bars"]),
        ("{figure: {kind: bar}, variants: [{name: a}]}", "unknown", "figure.kind", "bar"),
        ("{figure: {recordings: one}, variants: [{name: a}]}", "type", "figure.recordings", "one"),
        ("{figure: {n_recordings: x}, variants: [{name: a}]}", "type", "figure.n_recordings", "x"),
        ("{default: b, variants: [{name: a}]}", "unknown", "default", "b"),
        ("{seeds: 1, seeds: 2}", "duplicate", "line 1", "seeds"),
        ("grid:\n  a: [1\nb: 2", "unreadable", "line 3", ANY),
        ("set: &a {b: *a}\n", "unreadable", "", ANY),
        (5_000 * "[", "unreadable", "", ANY),
        (f"a0: &a0 [x]\n{BOMB}title: *a9\n", "unreadable", "", ANY),
    ],
)
def test_a_wrong_file_is_refused_at_the_keys_place(
    tmp_path: Path, text: str, rule: str, place: str, value: object
) -> None:
    (problem,) = problems(tmp_path, text, taken=("taken",))
    assert (problem.rule, problem.place) == (rule, place)
    assert value is ANY or (problem.value, type(problem.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("gird: {loss.smoothing: [1]}", "grid"),
        ("grid: {loss.smothing: [1]}", "loss.smoothing"),
        ("variants: [{name: a, sett: {}}]", "set"),
        ("variants: [{name: a, prediction: frame}]", "frames"),
        ("{recipe: breakfst, variants: [{name: a}]}", "breakfast"),
        ("{metrics: [moff], variants: [{name: a}]}", "mof"),
        ("{metrics: [frame.mof], variants: [{name: a}]}", "frames"),
        ("{figure: {kid: bars}, variants: [{name: a}]}", "kind"),
        ("{default: aa, variants: [{name: aaa}]}", "aaa"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(tmp_path: Path, text: str, nearest: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert f"did you mean {nearest!r}" in problem.message


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ("grid: {backbone.channels: [6], backbone.n_groups: [4]}", "grid.backbone.n_groups[0]", 4),
        ("grid: {backbone.channels: [6]}", "row '6': backbone.n_groups", 32),
        ("{set: {backbone.channels: 6}, grid: {loss.length: [0, 2]}}", "set: backbone.n_groups", 32),
    ],
)
def test_a_value_that_contradicts_another_is_refused_once_where_the_file_has_it_or_needs_it(
    tmp_path: Path, text: str, place: str, value: int
) -> None:
    (problem,) = problems(tmp_path, text)
    assert (problem.rule, problem.place, problem.value) == ("range", place, value)


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = "{titel: x, seeds: no, set: {loss.smothing: 1}, grid: {training.epochs: [0], mask: 3}}"
    assert [problem.place for problem in problems(tmp_path, text)] == [
        "titel",
        "set.loss.smothing",
        "grid.mask",
        "grid.training.epochs[0]",
        "seeds",
    ]


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


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("nowhere.yaml", None, "no such file"),
        ("folder.yaml", "a folder", "Is a directory"),
        ("latin.yaml", b"title: \xe4\n", "byte 7"),
        ("mine.txt", b"title: a\n", "'.txt'"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | str | None, word: str
) -> None:
    file = tmp_path / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        file.mkdir()
    assert main(None, ["run", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file}: ")
    assert word in line


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

"""A sweep of one's own from a file: what its rows are, what is wrong with it, and one run for real."""

import json
import textwrap
from pathlib import Path

import pytest

from mucon import recipes
from mucon.cli import main as mucon
from mucon.errors import InputError
from sweeps.service.cli import main
from sweeps.service.spec.columns import MUCON_COLUMNS
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.files.axes import MAX_ROWS
from sweeps.service.spec.files.reading import read_experiment
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


def read(folder: Path, text: str, name: str = "mine.yaml", taken: tuple[str, ...] = ()) -> Experiment | Collection:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return read_experiment(path, taken)


def table(folder: Path, text: str) -> Experiment:
    found = read(folder, text)
    assert isinstance(found, Experiment)
    return found


def problems(folder: Path, text: str, name: str = "mine.yaml", taken: tuple[str, ...] = ()) -> list[str]:
    """Each line without the file's name, which must stand in front of it."""
    with pytest.raises(InputError) as refused:
        read(folder, text, name, taken)
    start = f"{folder / name}: "
    assert all(line.startswith(start) for line in refused.value.problems)
    return [line.removeprefix(start) for line in refused.value.problems]


def test_rows_are_every_combination_of_variants_zip_and_grid(tmp_path: Path) -> None:
    found = table(tmp_path, WHOLE)
    assert (found.name, found.title, found.seeds, found.splits) == ("smooth", "More or less smoothing", 3, ("1", "two"))
    assert found.base is recipes.hollywood
    assert found.demo_base is recipes.hollywood
    settings = ("training.lr_drop_epoch", "training.learning_rate", "loss.smoothing", "backbone.pool_after")
    assert found.label_titles == ("Variant", *settings)
    assert len(found.variants) == 2 * 2 * 2 * 2
    first, last = found.variants[0], found.variants[-1]
    assert first.labels == ("default", "10", "1e-2", "0.1", "1,2")
    assert last.labels == ("aligned", "none", "0.02", "0.2", "1,2,4")
    assert (last.prediction, last.task) == ("frames", "alignment")
    config = recipes.hollywood().with_values(dict(last.settings))
    assert (config.training.epochs, config.training.lr_drop_epoch, config.training.learning_rate) == (30, None, 0.02)
    assert (config.loss.smoothing, config.loss.length, config.backbone.pool_after) == (0.2, 0.0, (1, 2, 4))
    assert [(column.title, column.prediction, column.unit) for column in found.columns] == [
        ("MoF", "full", "percent"),
        ("Edit frames", "frames", "percent"),
        ("border", "full", "frames"),
    ]
    assert found.default_row == "default, 10, 1e-2, 0.1, 1,2"
    assert found.figure == Figure(kind="segmentations", recordings=("a", "b"))


def test_what_is_left_out_is_as_in_the_packages_own_sweeps(tmp_path: Path) -> None:
    found = table(tmp_path, "grid: {loss.smoothing: [0.05, 0.1]}")
    assert (found.name, found.title, found.columns, found.splits) == ("mine", "mine", MUCON_COLUMNS, ("1",))
    assert (found.base, found.demo_base) == (recipes.breakfast, recipes.demo)
    assert (found.seeds, found.demo_seeds) == (5, 2)
    assert found.default_row == "0.1", "the row that changes nothing of the recipe"
    assert table(tmp_path, "grid: {loss.smoothing: [0.2, 0.3]}\nsplits: all").splits == ("all",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "a sweep's file holds keys and values, not none"),
        ("- a", "a sweep's file holds keys and values, not a"),
        ("title: x", "a sweep varies something, this one has no row: give variants, zip or grid"),
        ("gird: {loss.smoothing: [1]}", "gird: there is no such key (did you mean 'grid'?)"),
        ("grid: {loss.smothing: [1]}", "grid.loss.smothing: there is no such setting (did you mean 'loss.smoothing'"),
        (
            "grid: {loss: {smothing: [1]}}",
            "grid.loss.smothing: there is no such setting (did you mean 'loss.smoothing'",
        ),
        ("grid: [1]", "grid: settings are keys with values, not '1'"),
        (
            "grid: {loss.smoothing: [0.1, fast]}",
            "grid.loss.smoothing[1]: loss.smoothing is a finite number, not 'fast'",
        ),
        ("grid: {training.epochs: [0, 5]}", "grid.training.epochs[0]: training.epochs is at least 1, not 0"),
        ("grid: {mask.shape: [box, bel]}", "grid.mask.shape[1]: mask.shape is one of box, bell, trapezoid, not 'bel'"),
        ("grid: {loss.smoothing: []}", "grid.loss.smoothing: an axis has at least one value, this list is empty"),
        ("grid: {loss.smoothing: 0.1}", "grid.loss.smoothing: an axis is a list of values, not '0.1': write as [0.1]"),
        ("grid: {seed: [1, 2]}", "grid.seed: a sweep gives each trial its seed, no setting does: write `seeds: 3`"),
        ("grid: {loss.smoothing: [0.1, 0.10]}", "rows have distinct labels, '0.1' of mine stands twice"),
        ("grid: {loss.smoothing: [0, 0.0]}", "rows differ from each other, '0' and '0.0' are the same: leave one out"),
        (
            f"grid: {{training.epochs: {list(range(1, 41))}, loss.length: {list(range(30))}}}",
            f"a table has at most {MAX_ROWS} rows, these axes make 1200",
        ),
        (
            "zip: {training.epochs: [1, 2], loss.length: [1]}",
            "zip: zipped settings have equally many values, training.epochs has 2, loss.length has 1",
        ),
        (
            "{zip: {loss.length: [1, 2]}, grid: {loss.length: [3]}}",
            "grid.loss.length: a setting stands on one axis, it is under zip too: leave it out of one",
        ),
        (
            "{variants: [{name: a, set: {loss.length: 1}}], grid: {loss.length: [3]}}",
            "grid.loss.length[0]: a row has a setting once, variants[0].set.loss.length sets it too: remove one",
        ),
        ("variants: []", "variants: variants are a list of rows, not ''"),
        ("variants: [a]", "variants[0]: a variant has a name and settings, not 'a'"),
        ("variants: [{set: {loss.length: 1}}]", "variants[0].name: a variant has a name, this one has none: add one"),
        ("variants: [{name: no}]", "variants[0].name: it is a text, not 'false': put it in quotes"),
        ("variants: [{name: a}, {name: a}]", "variants[1].name: variants have distinct names, 'a' stands twice"),
        ("variants: [{name: a}, {name: b}]", "rows differ from each other, 'a' and 'b' are the same: leave one out"),
        ("variants: [{name: a, sett: {}}]", "variants[0].sett: there is no such key (did you mean 'set'?)"),
        (
            "variants: [{name: a, prediction: frame}]",
            "variants[0].prediction: it is one of frames, segments, full, not 'frame' (did you mean 'frames'?)",
        ),
        ("variants: [{name: a, task: align}]", "variants[0].task: it is one of segmentation, alignment, not 'align'"),
        ("{set: {loss.length: x}, variants: [{name: a}]}", "set.loss.length: loss.length is a finite number, not 'x'"),
        ("{recipe: breakfst, variants: [{name: a}]}", "recipe: it is one of breakfast, breakfast_full, hollywood"),
        ("{name: a b, variants: [{name: a}]}", "name: a sweep's name has letters, digits, _ and - only, not 'a b'"),
        ("{name: taken, variants: [{name: a}]}", "name: 'taken' is the name of a sweep of this package: take another"),
        ("{title: [a], variants: [{name: a}]}", "title: it is a text, not 'a': put it in quotes"),
        ("{seeds: 0, variants: [{name: a}]}", "seeds: it is how many, at least 1, not '0'"),
        ("{seeds: [1, 2], variants: [{name: a}]}", "seeds: it is how many, at least 1, not '1,2'"),
        ("{splits: [], variants: [{name: a}]}", "splits: they are names of splits, or all, not ''"),
        ("{splits: [1, 1], variants: [{name: a}]}", "splits: each split stands once, not '1,1': leave out the second"),
        ("{metrics: mof, variants: [{name: a}]}", "metrics: they are a list with at least one name, not 'mof'"),
        (
            "{metrics: [moff], variants: [{name: a}]}",
            "metrics[0]: a metric is the name of a score, not 'moff' (did you mean 'mof'",
        ),
        (
            "{metrics: [mof, frame.mof], variants: [{name: a}]}",
            "metrics[1]: a prediction is one of frames, segments, full, not 'frame' (did you mean 'frames'?)",
        ),
        (
            "{metrics: [mof, mof], variants: [{name: a}]}",
            "metrics[1]: columns have distinct titles, 'MoF' stands twice",
        ),
        (
            "{metrics: [{metric: mof, unti: x}], variants: [{name: a}]}",
            "metrics[0].unti: there is no such key (did you",
        ),
        ("{figure: bars, variants: [{name: a}]}", "figure: it has a kind and columns, not 'bars'"),
        ("{figure: {kid: bars}, variants: [{name: a}]}", "figure.kid: there is no such key (did you mean 'kind'?)"),
        ("{figure: {kind: [bars]}, variants: [{name: a}]}", "figure.kind: it is a text, not 'bars'"),
        (
            "{figure: {kind: bar}, variants: [{name: a}]}",
            "a figure is one of bars, curve, scatter, segmentations, 'bar'",
        ),
        ("{figure: {recordings: one}, variants: [{name: a}]}", "figure.recordings: they are a list of ids, not 'one'"),
        ("{figure: {n_recordings: x}, variants: [{name: a}]}", "figure.n_recordings: it is how many, not 'x'"),
        ("{default: b, variants: [{name: a}]}", "the default row is one of the rows, mine has no 'b'"),
        ("{seeds: 1, seeds: 2}", "line 1: a key stands once, 'seeds' twice: remove one"),
        ("grid:\n  a: [1\nb: 2", "line 3: this is no YAML ("),
    ],
)
def test_a_wrong_file_is_refused_at_the_keys_place(tmp_path: Path, text: str, found: str) -> None:
    (line,) = problems(tmp_path, text, taken=("taken",))
    assert line.startswith(found)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    told = problems(tmp_path, "{titel: x, seeds: no, set: {loss.smothing: 1}, grid: {training.epochs: [0], mask: 3}}")
    assert [line.split(":")[0] for line in told] == [
        "titel",
        "set.loss.smothing",
        "grid.mask",
        "grid.training.epochs[0]",
        "seeds",
    ]


def test_a_python_file_is_a_sweep_too(tmp_path: Path) -> None:
    script = small.own_script(tmp_path, "ours", {"a": {}, "b": {"mask.shape": "bell"}})
    found = read_experiment(script)
    assert (found.name, len(found.experiments[0].variants)) == ("ours", 2)
    with pytest.raises(InputError, match="'ours' is the name of a sweep of this package"):
        read_experiment(script, {"ours"})
    assert problems(tmp_path, "A = 1", "a.py")[0].startswith("a sweep's file has a value EXPERIMENT (an Experiment or")
    assert problems(tmp_path, "EXPERIMENT = 1", "a.py")[0].endswith("has int: see sweeps/ablation_masks.py")
    assert problems(tmp_path, "def", "a.py")[0].startswith("line 1: this is no Python (")
    empty = "from sweeps.api import Collection\nEXPERIMENT = Collection(name='c', title='c', experiments=())"
    assert problems(tmp_path, empty, "a.py") == ["a collection has at least one table, c has none: add an experiment"]


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(None, ["run", str(tmp_path / "nowhere.yaml")]) == 2
    assert f"{tmp_path / 'nowhere.yaml'} cannot (No such file or directory)" in capsys.readouterr().err
    (tmp_path / "latin.yaml").write_bytes(b"title: \xe4\n")
    assert main(None, ["run", str(tmp_path / "latin.yaml")]) == 2
    assert "latin.yaml is not UTF-8 text (byte 7)" in capsys.readouterr().err
    assert main(None, ["run", str(tmp_path / "mine.txt")]) == 2
    assert "a sweep's file ends with .yaml, .yml, .py" in capsys.readouterr().err


def test_the_help_explains_the_file_with_an_example_that_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(None, ["run", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    example = text.partition("may be left out:\n")[2].partition("\nThe rows are")[0]
    assert len(table(tmp_path, example).variants) == 2 * 2 * 6


def test_the_readmes_file_is_a_sweep(tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = (small.ROOT / "README.md").read_text().partition("\n### A sweep of your own\n")[2].partition("\n### ")[0]
    example = section.partition("```yaml\n")[2].partition("```")[0]
    file = tmp_path / example.partition("\n")[0].removeprefix("# ")
    assert f"`mucon-sweeps run {file.name} --store" in section
    file.write_text(example)
    words = ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--device", "cpu", "--dry-run"]
    assert main(None, ["run", str(file), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "smoothing: Smoothing and the shape of the masks"
    assert sum("  missing   " in line for line in lines) == 3 * 2 * 3
    assert any(line.startswith("to run: 18 trainings") for line in lines)


@pytest.mark.service
def test_a_file_is_run_from_its_estimate_to_the_commands_that_use_its_best_trial(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("seeds: 1\nmetrics: [mof, frames.mof]\ngrid: {mask.shape: [box, bell]}\n")
    line = small.command(Path("-m"), tiny_store, tmp_path / "results")
    line[2:2] = ["sweeps", "run", str(file)]
    assert main(None, [*line[3:], "--dry-run"]) == 0
    assert "to run: 2 trainings" in capsys.readouterr().out
    ran = small.run(line)
    assert (ran.returncode, ran.stderr) == (0, "")
    (best,) = (line for line in ran.stdout.splitlines() if line.startswith("best: "))
    (evaluate,) = (line.split()[2:] for line in ran.stdout.splitlines() if line.startswith("  evaluate: mucon "))
    assert mucon([*evaluate, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert best.endswith(f"{100 * scores['full']['mof']:.1f}")
    for identity, records in small.journals(tmp_path / "results").items():
        environment = next(record for record in records if record["kind"] == "environment")
        assert environment["command"].startswith(f"mucon-sweeps run {file} --store"), identity
    assert main(None, [*line[3:], "--dry-run"]) == 0
    assert "to run: nothing" in capsys.readouterr().out

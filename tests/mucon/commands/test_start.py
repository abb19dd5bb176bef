"""Help, refused command lines and exit statuses: what happens before and around a command."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from mucon import NUMERICS, cli
from mucon.cli import build_parser, main, warnings_as_lines
from mucon.commands import options
from mucon.commands.store import LIKE_OPTIONS, OPTIONS, PRESET
from mucon.errors import DataWarning, Diverged, InputError, Interrupted, Problem
from mucon.inference import PREDICTIONS, TASKS
from mucon.recipes import RECIPES
from mucon.synthetic.feature_model import PRESETS
from tests.helpers.commands import call, error_line, error_lines
from tests.helpers.refusals import refused

ROOT = Path(__file__).parents[3]
STORE_COMMANDS = ["store", "store import", "store inspect", "store verify", "store fetch", "store synthesize"]
COMMANDS = ["", "train", "evaluate", "predict", "baselines", "import-weights", "recipes", *STORE_COMMANDS]
OWN_EXAMPLES = [
    name for name in COMMANDS if name not in ("store import", "store inspect", "store verify", "store fetch")
]
TRAIN = ["train", "demo", "--store", "s", "--out", "o"]

LOADED = """
import sys
before = set(sys.modules)
from mucon.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as stop:
    status = stop.code
print("status", status, *sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ([], 2),
        (["--help"], 0),
        (["--version"], 0),
        (["train", "--help"], 0),
        (["store", "synthesize", "--help"], 0),
        (["trian"], 2),
        (["train", "brekfast", "--store", "s", "--out", "o"], 2),
        ([*TRAIN, "--epoks", "3"], 2),
        (["store", "inspekt", "s"], 2),
    ],
)
def test_help_and_refused_lines_import_nothing_but_the_standard_library(line: list[str], status: int):
    done = subprocess.run([sys.executable, "-c", LOADED, *line], cwd=ROOT, capture_output=True, text=True, check=True)
    word, printed, *modules = done.stdout.splitlines()[-1].split()
    assert (word, printed) == ("status", str(status)), done.stdout + done.stderr
    packages = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert packages == {"mucon", "storage"}
    assert len(modules) < 190  # with what an interpreter without editable packages has not loaded yet


def test_the_names_of_the_parser_are_those_of_the_library():
    assert [*options.RECIPES, *options.FORMER_RECIPES] == list(RECIPES)
    assert all(name in options.RECIPES for name in RECIPES)
    assert "brekfast" not in options.RECIPES
    assert options.PREDICTIONS == PREDICTIONS
    assert options.TASKS == TASKS
    assert PRESET in PRESETS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_goes_to_standard_output(capsys: pytest.CaptureFixture[str], command: str):
    with pytest.raises(SystemExit) as stopped:
        main([*command.split(), "--help"])
    assert stopped.value.code == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"usage: mucon {command}".strip())
    assert captured.err == ""


@pytest.mark.parametrize("command", OWN_EXAMPLES)
def test_the_examples_of_a_help_text_can_be_parsed(capsys: pytest.CaptureFixture[str], command: str):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  mucon ")]
    assert lines
    for line in lines:
        assert line.startswith(f"mucon {command}".strip())
        assert callable(build_parser().parse(line.split()[1:]).run)


def test_the_version_is_that_of_the_package_and_of_the_numerics(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    name, *_, numerics = capsys.readouterr().out.split()
    assert (name, numerics) == ("mucon", str(NUMERICS))


@pytest.mark.parametrize(
    ("line", "place", "value", "suggestion"),
    [
        (["trian"], "COMMAND", "trian", "'train'"),
        (["store", "inspekt", "s"], "COMMAND", "inspekt", "'inspect'"),
        (["train", "brekfast", "--store", "s", "--out", "o"], "RECIPE", "brekfast", "weak, full, short_videos"),
        (["import-weights", "x.trc", "o", "--recipe", "short"], "--recipe", "short", "'short_videos'"),
        (["evaluate", "r", "--store", "s", "--task", "align"], "--task", "align", "'alignment'"),
        (["predict", "r", "x.npy", "--prediction", "frame"], "--prediction", "frame", "'frames'"),
        (["store", "synthesize", "s", "--preset", "cleer"], "--preset", "cleer", "'clear'"),
        (["--verson"], "--verson", "--verson", "'--version'"),
        ([*TRAIN, "--epoks=3"], "--epoks", "--epoks", "'--epochs'"),
        (["train", "--sotre", "s"], "--sotre", "--sotre", "'--store'"),
        (["train", "--s", "s"], "--s", "--s", "--store or --split"),
    ],
)
def test_a_misspelt_name_is_one_line_with_the_nearest_ones(capsys, line, place, value, suggestion):
    with refused("unknown", place, value, n=1):
        call(line)
    text = error_line(capsys, line)
    assert text.startswith(f"{place}: ")
    assert suggestion in text


def test_every_unknown_option_is_reported(capsys: pytest.CaptureFixture[str]):
    with refused("unknown", n=2) as refusal:
        call([*TRAIN, "--epoks", "3", "--divice", "cpu"])
    assert refusal.places == ["--epoks", "--divice"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ([], ["COMMAND"]),
        (["store"], ["COMMAND"]),
        (["train"], ["RECIPE", "--store", "--out"]),
        (["predict"], ["MODEL"]),
    ],
)
def test_missing_arguments_are_named_with_the_command_that_explains_them(capsys, line, names):
    with refused("missing", n=1):
        call(line)
    text = error_line(capsys, line)
    assert all(name in text for name in names)
    assert f"`{' '.join(['mucon', *line, '--help'])}`" in text


@pytest.mark.parametrize(
    ("more", "place", "value"),
    [
        (["--seed", "x"], "--seed", "x"),
        (["--epochs", "1.5"], "--epochs", "1.5"),
        (["--epochs"], "--epochs", None),
    ],
)
def test_an_option_without_a_number_is_one_line(capsys, more, place, value):
    with refused("type", place, value, n=1):
        call([*TRAIN, *more])
    assert error_line(capsys, [*TRAIN, *more]).startswith(f"{place}: ")


def test_superfluous_arguments_are_reported(capsys: pytest.CaptureFixture[str]):
    with refused("unknown", n=2) as refusal:
        call([*TRAIN, "more", "-x"])
    assert refusal.values == ["more", "-x"]


def test_options_can_be_abbreviated_and_values_can_begin_with_dashes():
    assert build_parser().parse([*TRAIN, "--epo", "3"]).epochs == 3
    assert build_parser().parse(["train", "demo", "--store=--s", "--out", "o"]).store == Path("--s")
    assert build_parser().parse(["predict", "r", "--", "--x.npy"]).features == [Path("--x.npy")]


def test_the_options_of_both_kinds_of_recordings_are_those_of_the_parser():
    args = vars(build_parser().parse(["store", "synthesize", "s"]))
    assert {path for _, path, _, _ in OPTIONS} | set(LIKE_OPTIONS.values()) <= set(args)


@pytest.mark.parametrize(
    ("error", "status", "prefix"),
    [
        (
            InputError([Problem(rule="missing", place="a", message="x"), Problem(rule="state", message="y")]),
            2,
            "error: ",
        ),
        (Diverged("x"), 3, "error: "),
        (Interrupted("x"), 130, "interrupted: "),
    ],
)
def test_errors_of_a_command_become_lines_and_an_exit_status(monkeypatch, capsys, error, status, prefix):
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(cli.recipes, "run", fail)
    assert main(["recipes"]) == status
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(getattr(error, "problems", ["x"]))
    assert all(line.startswith(prefix) for line in lines)


def test_control_c_has_its_exit_status_and_internal_errors_are_raised(monkeypatch):
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(cli.recipes, "run", fail)
    error: BaseException = KeyboardInterrupt()
    assert main(["recipes"]) == 130
    error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        main(["recipes"])


def warn_of_each(*given: Warning) -> None:
    with warnings_as_lines():
        for warning in given:
            warnings.warn(warning, stacklevel=1)


def test_each_warning_about_data_is_a_line_once(capsys: pytest.CaptureFixture[str]):
    few, fewer = (DataWarning(Problem(rule="range", place="v1", value=n, expected="at least 8")) for n in (3, 2))
    warn_of_each(few, few, fewer, few)
    lines = capsys.readouterr().err.splitlines()
    assert [(line.startswith("warning: v1: "), line[-1]) for line in lines] == [(True, "3"), (True, "2")]


def test_other_warnings_are_left_alone(capsys: pytest.CaptureFixture[str]):
    with pytest.warns(RuntimeWarning, match="other"):
        warn_of_each(RuntimeWarning("other"))
    assert capsys.readouterr().err == ""


def test_several_problems_are_several_lines(capsys: pytest.CaptureFixture[str]):
    line = ["store", "synthesize", "s", "--split", "1", "--longest", "5"]
    assert [text.partition(":")[0] for text in error_lines(capsys, line)] == ["--split", "--longest"]

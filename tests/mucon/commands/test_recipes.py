"""`mucon recipes`."""

import os
import subprocess
import sys
import typing

import pytest

from mucon.cli import main
from mucon.config import TrainConfig
from mucon.configuration import field_texts, field_types
from mucon.methods import METHODS, method_named
from mucon.recipes import RECIPES


def test_all_settings_and_recipes_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["recipes"]) == 0
    text = capsys.readouterr().out
    for word in (*RECIPES, "mask.shape = box", "backbone.pool_after = 1,2,4,8", "training.lr_drop_epoch = none"):
        assert word in text
    titles = [line for line in text.splitlines() if line.endswith((".", "default"))]
    assert len(titles) == 7  # a former name is no recipe of its own


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_has_an_explanation_and_its_values(capsys: pytest.CaptureFixture[str], method: str):
    config = method_named(method).config
    assert field_texts(config).keys() == field_types(config).keys()
    assert main(["recipes", "--method", method, "--explain"]) == 0
    text = capsys.readouterr().out
    assert text.count("Values: ") == len(field_types(config))


def test_an_explanation_is_that_of_the_docstring(capsys: pytest.CaptureFixture[str]):
    assert main(["recipes", "--explain"]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    values = ", ".join(typing.get_args(field_types(TrainConfig)["training.optimiser"]))
    for path, text, kind in (
        ("training.epochs = 150", "passes over the training videos.", "a whole number"),
        ("training.optimiser = sgd", field_texts(TrainConfig)["training.optimiser"], f"one of {values}"),
    ):
        assert f"{path} {text} Values: {kind}." in lines


def test_an_output_that_its_reader_has_closed_does_not_end_the_command() -> None:
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "mucon", "recipes"]
    ran = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_an_output_that_is_closed_from_the_start_does_not_end_the_command() -> None:
    line = f"exec {sys.executable} -m mucon recipes >&- 2>/dev/null"
    assert subprocess.run(["sh", "-c", line], check=False).returncode == 0

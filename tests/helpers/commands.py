"""Command lines of `mucon` for tests, and what a refused one prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucon.cli import build_parser, main
from tests.helpers.factories import SMALL

SETTINGS = [
    word
    for path, value in SMALL.items()
    if path != "training.epochs"
    for word in ("--set", f"{path}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
]


def train_line(store: Path, out: Path, *more: str, epochs: int = 2) -> list[str]:
    """A training of a small network."""
    line = ["train", "weak", "--store", str(store), "--out", str(out), "--epochs", str(epochs), "--device", "cpu"]
    return [*line, *SETTINGS, *more]


def call(line: list[str]) -> int:
    """Runs a command and lets its errors pass, for `with refused(...)`."""
    args = build_parser().parse(line)
    status: int = args.run(args)
    return status


def error_lines(capsys: pytest.CaptureFixture[str], line: list[str]) -> list[str]:
    """Runs a command that must fail with status 2 and without output, and gives its errors without their prefix."""
    assert main(line) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines
    assert all(text.startswith("error: ") for text in lines), lines
    return [text.removeprefix("error: ") for text in lines]


def error_line(capsys: pytest.CaptureFixture[str], line: list[str]) -> str:
    """The only error of a command that must fail."""
    (text,) = error_lines(capsys, line)
    return text

"""Writes and reads files that describe sweeps."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from mucon.errors import InputError, Problem
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.files.reading import read_experiment


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

"""Imports of datasets in tests, and short forms of their problems and notes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import Store, StoreError, open_store
from storage.errors import Problem
from storage.importing import import_data
from storage.layouts import ImportOptions
from storage.layouts.ms_tcn import MsTcn
from tests.storage.helpers import DataSet

Fact = tuple[str, str, object]


def imported(data: DataSet | Path, folder: Path, **options: Any) -> tuple[Store, tuple[str, ...]]:
    """Imports a dataset, which is written to `folder/src` first; returns the store and the notes."""
    source = data if isinstance(data, Path) else data.write(folder / "src")
    result = import_data(MsTcn(source, ImportOptions(**options)), folder / "store")
    return open_store(folder / "store"), result.survey.notes


def problems_of(data: DataSet | Path, folder: Path, **options: Any) -> tuple[Problem, ...]:
    """The problems of an import, which must write nothing."""
    with pytest.raises(StoreError) as caught:
        imported(data, folder, **options)
    assert not (folder / "store").exists()
    assert [path.name for path in folder.iterdir()] == ["src"]
    for problem in caught.value.problems:
        assert problem.message or problem.expected, problem
        assert "\n" not in str(problem)
    return caught.value.problems


def facts(problems: Iterable[Problem], folder: Path) -> list[Fact]:
    """Rule, place and value of each problem; places relative to the dataset."""
    return [(problem.rule, problem.place.replace(f"{folder}/src/", ""), problem.value) for problem in problems]


def facts_of(data: DataSet | Path, folder: Path, **options: Any) -> list[Fact]:
    """The `facts` of the problems of an import."""
    return facts(problems_of(data, folder, **options), folder)


def noted(notes: Iterable[str], *parts: str) -> bool:
    """Whether exactly one note contains all these parts."""
    return sum(all(part in note for part in parts) for note in notes) == 1


def contains(store: Store, data: DataSet) -> bool:
    """Whether a store has exactly the features and labels of a dataset."""
    for video, features in data.features.items():
        record = store.record(video)
        assert record.transcript is not None
        assert record.lengths is not None
        names = [store.manifest.vocabulary[action] for action in record.transcript]
        runs = [(name, len(list(run))) for name, run in groupby(data.labels[video])]
        assert list(zip(names, record.lengths, strict=True)) == runs
        assert np.array_equal(store.features(video), features)
    return store.ids == tuple(sorted(data.features))

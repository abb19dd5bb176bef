"""A small store and a run on it, shared by the tests of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucon.cli import main
from tests.helpers.commands import train_line
from tests.helpers.factories import write_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store") / "store")


@pytest.fixture(scope="session")
def run(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs; tests do not change it."""
    folder = tmp_path_factory.mktemp("run") / "run"
    assert main(train_line(store, folder)) == 0
    return folder

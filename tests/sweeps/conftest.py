"""One finished sweep for all tests of this folder."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sweeps import small


@dataclass(frozen=True)
class Finished:
    """The mask ablation on the tiny store, run once by its own command line."""

    results: Path
    command: list[str]
    ran: "subprocess.CompletedProcess[str]"


@pytest.fixture(scope="session")
def finished_sweep(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    results = tmp_path_factory.mktemp("finished") / "results"
    command = small.command(small.MASKS, tiny_store, results)
    return Finished(results, command, small.run(command))

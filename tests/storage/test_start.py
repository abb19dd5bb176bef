"""What the commands import: nothing heavy before the arguments are parsed, and only what `inspect` needs afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORE = ROOT / "tests" / "data" / "store_v1"


def modules_after(code: str) -> set[str]:
    """Modules of a fresh process after some code, whose own output is discarded."""
    report = (
        "import os, sys\nsys.stdout = open(os.devnull, 'w')\n" + code + "\nprint(*sys.modules, file=sys.__stdout__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", report],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return set(done.stdout.split())


PARSER = """
import argparse
from storage.cli import add_store_commands
add_store_commands(argparse.ArgumentParser().add_subparsers())
"""
HELP = """
from storage.cli import main
try: main(["import", "--help"])
except SystemExit: pass
"""


@pytest.mark.parametrize("code", ["import storage.errors", "import storage.folders", PARSER, HELP])
def test_errors_folders_and_the_parser_need_neither_arrays_nor_parquet(code):
    modules = modules_after(code)
    assert "storage.errors" in modules
    assert not modules & {"numpy", "pyarrow", "pandas", "torch", "scipy", "difflib"}
    assert len(modules) < 140


def test_inspect_imports_neither_pandas_nor_unused_parts_of_pyarrow():
    modules = modules_after(f"from storage.cli import main\nassert main(['inspect', {str(STORE)!r}]) == 0")
    assert "pyarrow.parquet" in modules
    assert not modules & {"torch", "scipy", "numba", "matplotlib", "pandas", "pyarrow.compute", "pyarrow.dataset"}
    assert not modules & {"storage.importing", "storage.writer", "storage.verify", "storage.layouts.ms_tcn"}


def test_inspect_starts_no_blas_threads():
    code = f"""
import os
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"): os.environ.pop(name, None)
from storage.cli import main
assert main(["inspect", {str(STORE)!r}]) == 0
threads = [open(f"/proc/self/task/{{task}}/comm").read() for task in os.listdir("/proc/self/task")]
assert [name.strip() for name in threads if "jemalloc" not in name] == [threads[0].strip()]
"""
    assert "numpy" in modules_after(code)

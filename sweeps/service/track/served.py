"""An exported model as a folder of MLflow's `python_function` flavor; imports mlflow."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mucon
import storage
from mucon.export.serving import PARAMETERS
from mucon.identity.contract import Contract
from sweeps.service.track.server import set_environment

set_environment()  # mlflow reads its environment when it is imported

from mlflow.models import infer_signature  # noqa: E402
from mlflow.pyfunc import save_model  # noqa: E402

LOADER = "mucon.export.serving"
REQUIREMENTS = ("mlflow", "numba", "numpy", "pandas", "pyyaml", "rich", "safetensors", "scipy", "torch")
"""Distributions that a server of the model needs; the project's own packages are in the folder."""
EXAMPLE_FRAMES = 32


def _example(contract: Contract) -> NDArray[np.float32]:
    """Features `[EXAMPLE_FRAMES, D]` with the mean and the deviation of those of training, always the same."""
    drawn = np.random.default_rng(0).standard_normal((EXAMPLE_FRAMES, contract.dim))
    if contract.statistics is not None:
        drawn = drawn * contract.statistics.std + contract.statistics.mean
    return drawn.astype(np.float32)


def write_served(exported: Path, target: Path) -> None:
    """Writes MLflow's folder with a copy of an exported model, the project's packages, a signature and an example.

    Args:
        exported: an exported folder; MLflow's folder keeps its name.
        target: MLflow's folder, new.

    Raises:
        InputError: no model at `exported`, or a damaged one.
    """
    model = mucon.load(exported, device="cpu")
    example = _example(model.contract)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*integer column")  # no segment has a missing value
        signature = infer_signature(example, model.predict(example).to_dataframe("pandas"), PARAMETERS)
    save_model(
        str(target),
        loader_module=LOADER,
        data_path=str(exported),
        code_paths=[str(next(iter(package.__path__))) for package in (mucon, storage)],
        signature=signature,
        input_example=(example, PARAMETERS),
        pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in REQUIREMENTS],
    )

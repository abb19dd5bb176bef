"""The model of an exported folder for servers that load a Python module, such as MLflow's `python_function`.

The module's `_load_pyfunc` returns an object with `predict`. It imports no MLflow.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mucon
from mucon.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARAMETERS = {"prediction": "", "transcript": ""}
"""Parameters of a request with their defaults: the name of a prediction, and actions separated by commas; empty: the
method's main prediction, and no transcript."""


class Served:
    """A model that segments one recording per request.

    Args:
        model: the model.
    """

    def __init__(self, model: mucon.Model) -> None:
        self.model = model

    def predict(self, features: NDArray[Any], params: dict[str, str] | None = None) -> Any:
        """The segments of a recording as a pandas data frame, see `mucon.Segments.to_dataframe`.

        Args:
            features: array `[T, D]`, one recording with any T >= 1.
            params: see `PARAMETERS`; with a transcript, only the boundaries are predicted.

        Raises:
            InputError: as `mucon.Model.predict` and `align`; MLflow's own exception where MLflow is the caller, so that
                its server answers with the reason instead of a traceback.
        """
        try:
            return self._segments(features, params).to_dataframe("pandas")
        except InputError as error:
            exceptions = sys.modules.get("mlflow.exceptions")
            if exceptions is None:
                raise
            raise exceptions.MlflowException.invalid_parameter_value(str(error)) from error

    def _segments(self, features: NDArray[Any], params: dict[str, str] | None) -> mucon.Segments:
        """The prediction, or the alignment of a transcript."""
        chosen = {name: value for name, value in (params or {}).items() if value}
        prediction = chosen.get("prediction")
        if "transcript" in chosen:
            transcript = [action.strip() for action in chosen["transcript"].split(",")]
            return self.model.align(features, transcript, prediction)
        return self.model.predict(features, prediction)


def _load_pyfunc(path: str) -> Served:
    """The model of an exported folder.

    Args:
        path: the folder, or a file in it.
    """
    folder = Path(path)
    return Served(mucon.load(folder if folder.is_dir() else folder.parent))

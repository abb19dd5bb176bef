"""Features out of a .npy file, without ever unpickling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mucon.errors import InputError


def read_features(path: Path) -> NDArray[Any]:
    """The array of a .npy file, in native byte order.

    Raises:
        InputError: no such file, not a .npy file, cut off, or an array of objects.
    """
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist: name a .npy file with features [T, D]") from error
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is no readable .npy file of numbers ({error}): save it with numpy.save") from error
    return array.astype(array.dtype.newbyteorder("="), copy=False)

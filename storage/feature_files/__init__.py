"""Feature files: one module per kind, each with `header` and `array` of a file; `files` chooses the module.

Nothing in a file is ever executed. Imports neither numpy nor pyarrow, so that command line parsers start fast.
"""

from __future__ import annotations

SUFFIXES = (".npy", ".npz", ".pt", ".pth", ".csv", ".h5", ".hdf5", ".mat")
"""Suffixes of the files that are read."""
NAMELESS = (".npy", ".csv")
"""Suffixes of the files that contain one array without a name."""
PICKLES = (".pkl", ".pickle")
"""Suffixes of files that are refused by name."""

"""Names and format of sweep files; the command line's help prints the format."""

from __future__ import annotations

import os

SUFFIXES = (".yaml", ".yml", ".py")


def is_file_name(word: str) -> bool:
    """Whether a word names a sweep file rather than an experiment of the package.

    >>> is_file_name("mine.yaml"), is_file_name("elsewhere/mine"), is_file_name("ablation_masks")
    (True, True, False)
    """
    return word.endswith(SUFFIXES) or os.sep in word


FORMAT = """\
A sweep file in YAML; at least one of variants, zip and grid is required:

  title: More or less smoothing       # caption of the table (default: the name)
  name: smoothing                     # name of the sweep and its folder (default: the file's name)
  recipe: weak                        # base configuration, see `mucon recipes` (default: weak; demo if no --store)
  set: {training.epochs: 30}          # settings of all rows
  variants:                           # named rows; each may have settings, a prediction and a task
    - {name: default}
    - {name: no length loss, set: {loss.length: 0}, prediction: frames}
  zip:                                # settings that change together
    training.epochs: [30, 60]
    training.lr_drop_epoch: [20, 40]
  grid:                               # settings whose values are all combined
    loss.smoothing: [0.05, 0.1, 0.2]
    mask.shape: [box, bell]
  seeds: 3                            # seeds 1 to 3 (default: 5; 2 for the demo)
  splits: [1, 2]                      # or all (default: 1)
  metrics: [mof, frames.mof, f1_at_50]
  default: default, 30, 20, 0.1, box  # labels of the row with which the others are compared
  figure: {kind: curve, x: loss.smoothing}   # or bars, scatter, segmentations (default: bars)

The rows are all combinations of variants, zip and grid.

A sweep file in Python contains a value EXPERIMENT, as those of the package do (see sweeps/ablation_masks.py)."""

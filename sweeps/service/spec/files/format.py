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
  seeds: auto:3..15                   # or a number N: seeds 1 to N (default: 5; 2 for the demo), see --seeds
  until: 1.0                          # only with auto, see --until
  splits: [1, 2]                      # or all (default: 1)
  metrics: [mof, frames.mof, f1_at_50]
  default: default, 30, 20, 0.1, box  # labels of the row with which the others are compared
  figure: {kind: curve, x: loss.smoothing}   # or bars, scatter, segmentations (default: bars)

The rows are all combinations of variants, zip and grid.

In place of until, variants, zip, grid, metrics, default and figure, a file may describe a search; title, name, recipe,
set, seeds (the largest number per point) and splits are as above:

  search:
    space:                            # at least one setting
      training.learning_rate: {loguniform: [0.003, 0.1]}
      mask.overlap: {uniform: [0, 0.2], step: 0.05}      # step is optional
      backbone.n_layers: {int: [6, 11]}                  # also step: 2, or log: true
      mask.shape: [box, bell, trapezoid]                 # a choice
      mask.min_ramp_frames: {choice: [0, 8], when: {mask.shape: [box]}}   # only with these options of another choice
    objectives: [mof]                 # or several, such as [mof, inference_seconds] (default: mof)
    constraints: [{metric: inference_seconds, at_most: 10}]   # or at_least
    trials: 20                        # points (default: 20; 8 for the demo)
    sampler: tpe                      # or random, grid, cmaes, nsga2
    sampler_seed: 1
    rungs: [0.7]                      # shares of a training after which points that are not promising stop
    best: 3                           # points that are trained again at the end, on the whole training part
    fresh_seeds: 5                    # with so many seeds

A sweep file in Python contains a value EXPERIMENT, as those of the package do (see sweeps/ablation_masks.py and
sweeps/search.py)."""

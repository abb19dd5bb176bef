"""The format of a sweep's file, as the command line's help prints it."""

FORMAT = """\
A file says what is varied; everything but an axis (variants, zip, grid) may be left out:

  title: More or less smoothing       # over the table (default: the name)
  name: smoothing                     # of the sweep and its folder (default: the file's)
  recipe: breakfast                   # under the rows; `mucon recipes` lists them (default: as the other sweeps)
  set: {training.epochs: 30}          # settings of all rows
  variants:                           # rows with names; prediction and task may be told too
    - {name: default}
    - {name: no length loss, set: {loss.length: 0}, prediction: frames}
  zip:                                # settings that change together
    training.epochs: [30, 60]
    training.lr_drop_epoch: [20, 40]
  grid:                               # settings of which every combination is a row
    loss.smoothing: [0.05, 0.1, 0.2]
    mask.shape: [box, bell]
  seeds: 3                            # seeds 1 to 3 (default: 5, of the demo 2)
  splits: [1, 2]                      # or all (default: 1)
  metrics: [mof, frames.mof, f1_at_50]
  default: default, 30, 20, 0.1, box  # the row with which the others are compared: its labels
  figure: {kind: curve, x: loss.smoothing}   # or bars, scatter, segmentations (default: bars)

The rows are the combinations of variants, zip and grid. FILE.py instead holds a value EXPERIMENT, as each of the
package's own does (see sweeps/ablation_masks.py)."""

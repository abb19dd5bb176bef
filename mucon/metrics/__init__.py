"""Metrics of segmentations. Values are fractions 0..1, except boundary errors, which are in frames or seconds.

The two metrics of log lengths are numbers. An undefined value is None, never NaN and never 0. `frames`, `segments` and
`transcripts` contain the arithmetic of one recording; `catalogue` lists all metrics with their names, titles and units;
`scores` computes them over many recordings; `alignment`, `boundaries` and `confusion` add to them. A new metric needs
its arithmetic and its line in the catalogue.

Metrics that count frames or segments (MoF, F1, Edit, IoD, IoU) compare maximal runs of one action, as frame labels
show them: two neighbouring segments of one action count as one. The matching score compares transcripts including
repetitions.
"""

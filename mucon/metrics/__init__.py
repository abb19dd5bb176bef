"""Metrics of segmentations. Values are fractions 0..1, except the boundary errors, which are in frames or seconds.

What has no defined value is None, never NaN and never 0. Frames, segments and transcripts each have their module;
`scores` puts them together over many recordings; `alignment`, `boundaries` and `confusion` add to them.
What is measured in frames (MoF, F1, Edit, IoD, IoU) sees what frame labels show: maximal runs of one action, so two
neighbouring segments of one action count as one there. The matching score compares transcripts as they are, with
repetitions.
"""

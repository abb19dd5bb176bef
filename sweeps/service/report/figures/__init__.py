"""Figures of a sweep: bars, curves and segmentations."""

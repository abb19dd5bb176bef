"""Sweeps as single files: written, read and reported without their folder; and results from elsewhere as rows."""

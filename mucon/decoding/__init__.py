"""Decoding on arrays: best lengths of a transcript, priors on lengths, rounding. Nothing here knows the network.

numba is imported when the first decoding starts, not when this package is.
"""

"""Decoding on arrays: best lengths of a transcript, priors on lengths, rounding. Does not import the network.

numba is imported by the first decoding, not with this package.
"""

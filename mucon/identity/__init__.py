"""Digests of plain values and of recordings, and the record of the data that a model was trained on."""

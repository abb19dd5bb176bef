"""Stores as datasets that other programs read, and such datasets as a layout of imports."""

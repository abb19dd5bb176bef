"""Stores as datasets that other programs read: layouts out."""

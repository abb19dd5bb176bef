"""CDFL."""

"""Experiments as values, one per file; `sweeps.service` runs them."""

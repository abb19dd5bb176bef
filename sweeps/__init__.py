"""Experiments as data, one file each; `sweeps.service` runs them."""

"""Specifications of sweeps as frozen values: what is varied and what is shown; knows no folder, store or identity."""

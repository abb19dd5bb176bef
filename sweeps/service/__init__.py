"""Runs experiments: Ray Tune executes trials, their directories are the truth, MLflow shows them."""

"""Runs experiments: the trials' folders are the truth, Ray Tune executes, MLflow shows."""

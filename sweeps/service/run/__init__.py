"""Runs trials: worker, sources of trials, resources, estimate, reproduction; `executor` runs them with Ray."""

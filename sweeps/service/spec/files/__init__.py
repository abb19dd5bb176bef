"""Reads user-defined sweeps from YAML and Python files."""

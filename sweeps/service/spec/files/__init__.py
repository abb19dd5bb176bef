"""User-defined sweeps from YAML and Python files."""

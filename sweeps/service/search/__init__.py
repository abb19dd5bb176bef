"""Spaces, the durable study, and the ask-tell loop; the only importer of optuna."""

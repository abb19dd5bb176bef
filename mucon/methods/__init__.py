"""The methods: one per file, each with a configuration, training and loading; none imports another."""

from mucon.methods.table import METHODS, method_named

__all__ = ["METHODS", "method_named"]

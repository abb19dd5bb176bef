"""Moments at which a test causes a fault for real; one switch for all packages."""

from storage.failpoints import reach

__all__ = ["reach"]

"""mucon.metrics."""

"""mucon.model."""

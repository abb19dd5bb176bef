"""mucon."""

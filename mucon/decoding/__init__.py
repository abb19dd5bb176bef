"""mucon.decoding."""

"""Writes made-up and simulated recordings as feature stores."""

"""sweeps.service."""

"""Stores at other places than a local path: their addresses, the local cache, and copies into both directions."""

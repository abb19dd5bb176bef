"""The command lines of sweeps and searches: what they share, and what only a search has."""

"""Seeds that are added row by row while the trials of a sweep run."""

"""The states of sweeps and trials, and why a cell has no result: failures, logs, and the nearest recorded trial."""

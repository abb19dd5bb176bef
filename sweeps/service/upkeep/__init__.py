"""What happens to trials and sweeps after their runs: again, away, elsewhere; which checkpoints stay."""

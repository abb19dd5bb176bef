"""The commands of `mucon-sweeps`, one file each."""

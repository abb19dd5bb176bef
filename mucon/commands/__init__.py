"""The commands of `mucon`, one file each."""

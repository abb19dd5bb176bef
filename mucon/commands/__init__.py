"""The commands of `mucon`, one file each.

`add` builds a command's parser and imports nothing heavy, so that help and refused command lines are fast. `run`
imports what the command needs and returns the exit status.
"""

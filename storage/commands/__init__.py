"""The store commands, one file each: `add` adds the parser of a command, and `run` runs it."""

"""Which cells a sweep has, which trials they are, and the sweep's own folder; makes no table."""

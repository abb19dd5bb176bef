"""What `inspect` shows of a store, one file per kind of finding; reads stores, writes nothing."""

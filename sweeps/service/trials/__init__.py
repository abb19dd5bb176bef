"""One trial on disk: identity, directory, journal, lease and result; the single source of truth."""

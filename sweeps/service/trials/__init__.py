"""One trial on disk: identity, folder, journal, lease and result; the single source of truth."""

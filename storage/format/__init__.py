"""The store's format: schema, manifest, records, pages and shards; see `storage/FORMAT.md`."""

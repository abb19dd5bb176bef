"""storage.layouts."""

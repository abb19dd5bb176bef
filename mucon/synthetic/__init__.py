"""Makes recordings from numbers; knows no store."""

"""The commands that turn trials of a sweep into a model for others."""

"""The commands that turn a trial of a sweep into a model for others."""

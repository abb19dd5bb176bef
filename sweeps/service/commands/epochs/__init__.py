"""The commands that look at the epochs of trainings."""

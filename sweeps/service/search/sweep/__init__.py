"""A search as a sweep of the service: its points as rows, its trainings as trials, and the last step."""

"""What is varied and shown, as frozen values; knows no folder, no store and no identity."""

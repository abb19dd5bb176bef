"""Names of MuCon's predictions."""

PREDICTIONS = ("frames", "segments", "full")
"""Names of the predictions."""
MAIN = "full"
"""The prediction that the paper compares with other methods."""

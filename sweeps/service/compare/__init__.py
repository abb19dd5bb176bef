"""Why one trained model is better than another: differences, metrics, seed noise, videos and actions."""

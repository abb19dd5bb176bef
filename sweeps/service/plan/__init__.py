"""The cells of a sweep, the trials behind them, and the sweep's own folder; makes no tables."""

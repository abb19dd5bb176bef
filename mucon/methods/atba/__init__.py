"""ATBA: pseudo labels from action-transition-aware boundaries, class tokens, two stages; weak supervision."""

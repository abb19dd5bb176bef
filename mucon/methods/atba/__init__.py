"""ATBA: pseudo labels from action-transition-aware boundaries, class tokens, two stages; weak supervision."""

from mucon.methods.atba.method import ATBA

__all__ = ["ATBA"]

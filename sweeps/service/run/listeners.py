"""Passes the progress of trials on to several listeners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sweeps.service.run.worker import Outcome


class Listener(Protocol):
    """Receives the progress of trials."""

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended, in any state."""

    def note(self, text: str, key: str | None = None) -> None:
        """Something worth a line happened to the sweep, or to a trial."""


class Listeners:
    """Passes everything on to each of several listeners."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def epoch(self, key: str, values: Mapping[str, Any]) -> None:
        """A trial has finished an epoch."""
        for listener in self._listeners:
            listener.epoch(key, values)

    def ended(self, key: str, outcome: Outcome) -> None:
        """A trial has ended, in any state."""
        for listener in self._listeners:
            listener.ended(key, outcome)

    def note(self, text: str, key: str | None = None) -> None:
        """Something worth a line happened to the sweep, or to a trial."""
        for listener in self._listeners:
            listener.note(text, key)

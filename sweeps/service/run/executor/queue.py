"""The queue from which Tune takes its trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from sweeps.service.run.source import Exhausted


class TrialQueue(Searcher):  # type: ignore[misc]  # Ray has no types
    """Passes requests on to Tune, a bounded number at a time.

    Args:
        next_request: returns the config of Tune's next trial, or None if there is none at the moment; raises
            `Exhausted` if there will be no further one.
        at_most: number of requests inside Tune at a time.
        stopping: once it returns true, no further request is passed on.
    """

    def __init__(
        self,
        next_request: Callable[[], Mapping[str, Any] | None],
        *,
        at_most: int,
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._next_request = next_request
        self._inside: set[str] = set()
        self._at_most = at_most
        self._stopping = stopping

    def suggest(self, trial_id: str) -> Any:
        """The next request, None while there is none or enough are inside Tune, or the end."""
        if self._stopping():
            return Searcher.FINISHED
        if len(self._inside) >= self._at_most:
            return None
        try:
            request = self._next_request()
        except Exhausted:
            return Searcher.FINISHED
        if request is None:
            return None
        self._inside.add(trial_id)
        return dict(request)

    def on_trial_complete(self, trial_id: str, **_: Any) -> None:
        """Makes room for the next."""
        self._inside.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Writes an empty file, which Tune requires; a sweep resumes from its trials' directories instead."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a sweep resumes from its trials' directories: run the same command again")

    def __getstate__(self) -> dict[str, Any]:
        return {}

"""The queue from which Ray Tune takes its trials: never more of them inside Tune than it can soon start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher


class TrialQueue(Searcher):  # type: ignore[misc]  # Ray has no types
    """Hands out requests one by one, those that nobody else is working on first.

    Args:
        requests: one for each trial; Tune gives it to the worker as the trial's config.
        at_most: how many may be inside Tune at a time.
        is_held: whether another process trains a request at the moment; its turn comes last.
        stopping: once it is true, nothing more is handed out.
    """

    def __init__(
        self,
        requests: Sequence[Mapping[str, Any]],
        *,
        at_most: int,
        is_held: Callable[[Mapping[str, Any]], bool],
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._waiting = list(requests)
        self._inside: set[str] = set()
        self._at_most = at_most
        self._is_held = is_held
        self._stopping = stopping

    def suggest(self, trial_id: str) -> Any:
        """The next request, None while there are enough inside Tune, or the end."""
        if not self._waiting or self._stopping():
            return Searcher.FINISHED
        if len(self._inside) >= self._at_most:
            return None
        free = next((i for i, request in enumerate(self._waiting) if not self._is_held(request)), 0)
        self._inside.add(trial_id)
        return dict(self._waiting.pop(free))

    def on_trial_complete(self, trial_id: str, **_: Any) -> None:
        """Makes room for the next."""
        self._inside.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Tune insists on a file; nothing is ever restored from it, since the trials' folders are the memory."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a sweep goes on from its trials' folders: run the same command again")

    def __getstate__(self) -> dict[str, Any]:
        return {}

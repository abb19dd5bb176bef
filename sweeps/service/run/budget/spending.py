"""What a sweep has used of its budget, and what is left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping

from mucon.errors import InputError
from sweeps.service.run.budget.limits import Budget, Limit
from sweeps.service.run.budget.usage import Usage


class Spending:
    """What a sweep has used of its budget.

    Args:
        budget: the limits.
        started: when the command began, on the clock.
        used: identity -> what a trial has used so far.
        read: returns what a trial has used by now; raises `InputError` for a damaged record, whose last value counts.
        clock: seconds.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        started: float,
        used: Mapping[str, Usage],
        read: Callable[[str], Usage],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._started = started
        self._used = dict(used)
        self._read = read
        self._clock = clock

    def update(self, identities: Iterable[str]) -> None:
        """Reads again what some trials have used."""
        for identity in list(identities):
            with contextlib.suppress(InputError):
                self._used[identity] = self._read(identity)

    def of(self, identity: str) -> Usage:
        """What a trial has used, as it was last read."""
        return self._used.get(identity, Usage())

    @property
    def seconds(self) -> float:
        """Wall time since the command began."""
        return self._clock() - self._started

    def used(self, limit: Limit) -> float:
        """What has been used of a limit on time or hours, in its unit."""
        if limit.option == "--time-budget":
            return self.seconds
        used = list(self._used.values())
        return sum(one.gpu_seconds if limit.option == "--gpu-hours" else one.cpu_seconds for one in used)

    def left(self, limit: Limit) -> float:
        """What is left of a limit; not negative."""
        return max(limit.value - self.used(limit), 0.0)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits that depend on what trials use."""
        return self._budget.metered

    @property
    def is_over(self) -> bool:
        """Whether a limit has been reached."""
        return any(not self.left(limit) for limit in self.limits)

    @property
    def largest_share(self) -> tuple[Limit, float] | None:
        """The limit of which the largest share has been used, and that share from 0 on; None without limits."""
        shares = [(limit, self.used(limit) / limit.value) for limit in self.limits]
        return max(shares, key=lambda pair: pair[1], default=None)

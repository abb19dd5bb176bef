"""Faults caused for real at named moments: the environment variable says where, when and what.

`MUCON_FAILPOINT="storage.writer.manifest:1:kill"` kills the process (SIGKILL) when it reaches that name for the first
time. Without the variable `reach` does nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

VARIABLE = "MUCON_FAILPOINT"
"""The environment variable, `name:count:action`."""

_reached: Counter[str] = Counter()


class FailpointError(RuntimeError):
    """The failure that the action `raise` causes."""


def reach(name: str) -> None:
    """Says that this process is at the moment `name`; acts when it is the one that was asked for.

    The actions: `kill` ends the process with SIGKILL, `raise` raises, `hang` waits for ever.

    Args:
        name: the moment, such as `storage.writer.manifest`.

    Raises:
        FailpointError: the action is `raise`.
        ValueError: the variable is not `name:count:action` with a count of at least 1 and a known action.
    """
    asked = os.environ.get(VARIABLE)
    if not asked:
        return
    where, count, action = _parsed(asked)
    if where != name:
        return
    _reached[name] += 1
    if _reached[name] != count:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "hang":
        threading.Event().wait()
    raise FailpointError(f"the failpoint {name} was reached {count} times: {VARIABLE}={asked} asks for a failure here")


def _parsed(asked: str) -> tuple[str, int, str]:
    parts = asked.split(":")
    if len(parts) != 3 or not parts[1].isdecimal() or int(parts[1]) < 1 or parts[2] not in ("kill", "raise", "hang"):
        raise ValueError(
            f"{VARIABLE} is name:count:action with a count of at least 1 and the action kill, raise or hang, "
            f"not {asked!r}: correct or unset it"
        )
    return parts[0], int(parts[1]), parts[2]

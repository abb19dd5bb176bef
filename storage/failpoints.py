"""Named points where tests inject real failures.

The environment variable names the point, the count and the action: `MUCON_FAILPOINT="storage.writer.manifest:1:kill"`
kills the process with SIGKILL when it reaches that point for the first time. Without the variable, `reach` does
nothing. Several settings are separated by commas.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter

VARIABLE = "MUCON_FAILPOINT"
"""Environment variable, `name:count:action`."""

ACTIONS = ("kill", "abort", "stop", "raise", "memory", "hang", "slow")
SLOW_SECONDS = 0.2

_reached: Counter[str] = Counter()


class FailpointError(RuntimeError):
    """Failure that the action `raise` causes."""


def reach(name: str) -> None:
    """Marks a failpoint and causes its failure if the environment variable asks for one here.

    Actions: `kill` ends the process with SIGKILL, `abort` as native code does, `stop` freezes it by SIGSTOP until
    SIGCONT, `raise` and `memory` raise, `hang` waits forever, `slow` waits for a moment, also each later time.

    Args:
        name: such as `storage.writer.manifest`.

    Raises:
        FailpointError: the action is `raise`.
        MemoryError: the action is `memory`.
        ValueError: the variable is not `name:count:action` with a count of at least 1 and a known action.
    """
    for setting in filter(None, os.environ.get(VARIABLE, "").split(",")):
        failpoint, count, action = _parsed(setting)
        if failpoint == name:
            _reached[setting] += 1
            if _reached[setting] == count or (action == "slow" and _reached[setting] > count):
                _fail(name, count, action)


def _fail(name: str, count: int, action: str) -> None:
    if action == "slow":
        time.sleep(SLOW_SECONDS)
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    if action == "abort":
        os.abort()
    if action == "memory":
        raise MemoryError
    if action == "hang":
        threading.Event().wait()
    raise FailpointError(f"failpoint {name} reached {count} times ({VARIABLE}={name}:{count}:{action})")


def _parsed(setting: str) -> tuple[str, int, str]:
    parts = setting.split(":")
    if len(parts) != 3 or not parts[1].isdecimal() or int(parts[1]) < 1 or parts[2] not in ACTIONS:
        raise ValueError(
            f"{VARIABLE}: expected name:count:action with a count of at least 1 and an action of {', '.join(ACTIONS)}, "
            f"got {setting!r}"
        )
    return parts[0], int(parts[1]), parts[2]

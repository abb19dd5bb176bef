"""The address of a Ray cluster: the option --address, the variable RAY_ADDRESS, and whether a cluster answers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

from mucon.errors import InputError, Problem

VARIABLE = "RAY_ADDRESS"
PLACE = f"--address, {VARIABLE}"
AUTO = "auto"
CONNECT_SECONDS = 5.0
"""Seconds within which a server accepts a connection."""
ANSWER_SECONDS = 30.0
"""Seconds within which a cluster says its versions; most of them are for the start of Python."""
START = "start the cluster, or leave --address out and unset RAY_ADDRESS to use this machine"
HINTS = {
    "missing": f"{START}; an address is HOST:PORT",
    "duplicate": "name one of them",
    "token": "compare RAY_AUTH_MODE and RAY_AUTH_TOKEN with those of the cluster",
    "version": "install the versions of the cluster here, or run the sweep there with --submit",
    "unreachable": START,
}
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from sweeps.service.run.executor.cluster.looking import main
main()
"""


def use_address(given: str | None) -> None:
    """Makes the value of --address the address of this process; it wins over RAY_ADDRESS.

    `auto` is the cluster at RAY_ADDRESS, or else that of this machine.

    Raises:
        InputError: no address of a cluster; nothing is connected yet.
    """
    if given is not None and not (given == AUTO and os.environ.get(VARIABLE)):
        _check_form(given)
        os.environ[VARIABLE] = given


def check_cluster() -> None:
    """Asks the cluster at RAY_ADDRESS for its versions, and replaces `auto` by its address.

    Ray itself would retry for minutes, and say less.

    Raises:
        InputError: no cluster answers, it has another token, or other versions of Ray or Python.
    """
    address = os.environ.get(VARIABLE, "")
    _check_form(address)
    if address != AUTO:
        _connect(address)
    answer = _look(address)
    if kind := answer.get("problem"):
        rule = {"token": "unreachable"}.get(kind, kind)
        raise _refused(rule, answer["address"] or address, answer["message"], HINTS[kind])
    os.environ[VARIABLE] = answer["address"]


def _look(address: str) -> dict[str, Any]:
    """What `looking` prints, in a process that can be ended: Ray's client may hang, and writes to standard error."""
    line = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), address]
    try:
        ran = subprocess.run(line, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
        answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return answer
    except subprocess.TimeoutExpired:
        message = f"no Ray cluster answers at {address} within {ANSWER_SECONDS:g} s"
    except (IndexError, ValueError):
        last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        message = f"cannot ask the Ray cluster at {address} ({last})"
    return {"problem": "unreachable", "message": message, "address": address}


def _check_form(address: str) -> None:
    if address == AUTO:
        return
    expected = "HOST:PORT of the cluster's control store, or auto"
    if address.startswith("ray://"):
        message = "Ray Client (ray://) is not supported"
        raise _refused("unsupported", address, message, "use --submit http://HEAD:8265, or start the sweep on a node")
    if re.match("https?://", address):
        raise _refused("unsupported", address, "this is the address of a dashboard", f"use --submit {address}")
    try:
        parts = urlsplit(f"//{address}")
        is_right = bool(parts.hostname and parts.port) and address == parts.netloc and "@" not in address
    except ValueError:
        is_right = False
    if not is_right:
        raise InputError(Problem(rule="range", place=PLACE, value=address, expected=expected))


def _connect(address: str) -> None:
    parts = urlsplit(f"//{address}")
    try:
        socket.create_connection((str(parts.hostname), int(parts.port or 0)), CONNECT_SECONDS).close()
    except OSError as error:
        raise _refused("unreachable", address, f"no Ray cluster at {address} ({error})", START) from error


def _refused(rule: Any, value: str, message: str, hint: str) -> InputError:
    return InputError(Problem(rule=rule, place=PLACE, value=value, message=message, hint=hint))

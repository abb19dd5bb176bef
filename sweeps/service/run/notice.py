"""Posts a JSON document to an address when something about a running sweep is worth knowing."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from mucon.errors import InputError, Problem
from sweeps.service.text import HIDDEN, redacted

FORMAT_VERSION = 1
"""Version of the document, see docs/formats.md."""
VARIABLE = "MUCON_NOTIFY"
"""Environment variable with the address, for addresses that no process list may show."""
SECONDS = 5.0
"""Time limit of a notice."""


def notify_address(option: str | None, variable: str | None) -> str | None:
    """The address that receives notices; it may contain a secret, and no message shows it.

    Args:
        option: value of `--notify`.
        variable: value of `MUCON_NOTIFY`, which the option replaces.

    Raises:
        InputError: no http or https address.
    """
    place, address = ("--notify", option) if option else (VARIABLE, variable)
    if not address:
        return None
    try:
        parts = urlsplit(address)
        is_usable = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        is_usable = False
    if not is_usable or not address.isascii() or not address.isprintable() or " " in address:
        expected = "an http or https address, such as https://HOST/PATH"
        raise InputError(Problem(rule="range", place=place, value=HIDDEN, expected=expected))
    return address


class Notices:
    """Posts notices of a sweep, each kind once, in threads that never hold the sweep up.

    Args:
        address: where they are posted; None for nowhere.
        sweep: name of the sweep.
        warn: receives one line for the first notice that cannot be posted.
    """

    def __init__(self, address: str | None, sweep: str, warn: Callable[[str], None]) -> None:
        self._address = address
        self._sweep = sweep
        self._warn = warn
        self._sent: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._has_warned = False

    def send(self, kind: str, text: str, facts: Mapping[str, Any]) -> None:
        """Posts a notice unless one of its kind has been posted; returns at once.

        Args:
            kind: what has happened.
            text: the same as a sentence.
            facts: further values of the document.
        """
        with self._lock:
            if self._address is None or kind in self._sent:
                return
            self._sent.add(kind)
            document = {
                "format_version": FORMAT_VERSION,
                "kind": kind,
                "sweep": self._sweep,
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "host": socket.gethostname(),
                "text": text,
                **facts,
            }
            thread = threading.Thread(target=self._post, args=(_redacted(document),), name="notice", daemon=True)
            self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Waits until all notices are posted, at most as long as one may take."""
        deadline = time.monotonic() + SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        if any(thread.is_alive() for thread in self._threads):
            self._failed(f"no answer within {SECONDS:g} s")

    def _post(self, document: Mapping[str, Any]) -> None:
        assert self._address is not None
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json", "User-Agent": "mucon-sweeps"}
        try:
            request = urllib.request.Request(self._address, body, headers, method="POST")
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=SECONDS):
                pass
        except urllib.error.HTTPError as error:
            self._failed(f"status {error.code}")
        except (OSError, HTTPException, ValueError) as error:  # whose messages may contain the address
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            self._failed(type(reason).__name__ if isinstance(reason, Exception) else type(error).__name__)

    def _failed(self, reason: str) -> None:
        with self._lock:
            if self._has_warned:
                return
            self._has_warned = True
        self._warn(f"warning: a notice could not be posted ({reason}); the sweep goes on")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it would turn the document into a request without one."""

    def redirect_request(self, *_: Any) -> None:
        """Makes a redirection an error."""


def _redacted(value: Any) -> Any:
    """The value with secrets in its texts replaced."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {name: _redacted(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(one) for one in value]
    return value

"""A local HTTP server that records the JSON documents it receives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Listening(ThreadingHTTPServer):
    """Answers every POST.

    Args:
        status: status of the answers; 0 for no answer until `released` is set.
    """

    daemon_threads = True

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.received: list[dict[str, Any]] = []
        self.released = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def kinds(self) -> list[str]:
        return [document["kind"] for document in self.received]


class _Handler(BaseHTTPRequestHandler):
    server: Listening

    def do_POST(self) -> None:
        self.server.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if not self.server.status:
            self.server.released.wait(60)
        self.send_response(self.server.status or 200)
        self.send_header("Location", self.server.address)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(status: int = 200) -> Iterator[Listening]:
    """Runs a server."""
    with Listening(status) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()

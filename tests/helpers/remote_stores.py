"""A web server of a folder in a thread of the test, which counts and disturbs what it sends."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Site(ThreadingHTTPServer):
    """The server.

    Attributes:
        asked: how often each file was asked for.
        cut: names of files whose connection is closed after some bytes.
        login: the required value of the header Authorization; empty: none.
        before: called with the name of each file before it is sent.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.asked: Counter[str] = Counter()
        self.cut: set[str] = set()
        self.login = ""
        self.before: Callable[[str], object] = str

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has read enough closes the connection."""

    def uri(self, name: str) -> str:
        """The address of a store in the folder."""
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class _Handler(SimpleHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        name = Path(self.path).name
        self.server.asked[name] += 1
        self.server.before(name)
        if self.server.login and self.headers.get("Authorization") != self.server.login:
            self.send_error(401)
            return
        super().do_GET()

    def copyfile(self, source, outputfile) -> None:  # type: ignore[no-untyped-def]
        if Path(self.path).name in self.server.cut:
            outputfile.write(source.read(100))
            self.close_connection = True
            return
        super().copyfile(source, outputfile)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def site_of(folder: Path) -> Iterator[Site]:
    """Serves a folder."""
    site = Site(folder)
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        site.server_close()
        thread.join()

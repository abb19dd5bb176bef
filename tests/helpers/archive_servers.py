"""A local server with a published archive, which breaks connections, changes the file, or knows no ranges."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from storage.remote.fetching import ARCHIVES

ARCHIVE = ARCHIVES["breakfast"]


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """A zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in files.items():
            written.writestr(name, content)
    return target.getvalue()


def released() -> dict[str, bytes]:
    """Files of two recordings as the authors published theirs, below one folder."""
    files = {"breakfast/mapping.txt": b"0 SIL\n1 pour\n", "__MACOSX/._x": b"junk"}
    random = np.random.default_rng(0)
    for name, lengths in (("P03_cam01_P03_tea", [15, 25]), ("P04_cam01_P04_tea", [15, 40])):
        arrays = {
            "features": random.standard_normal((sum(lengths), 8)).astype(np.float32),
            "labels": np.repeat([0, 1], lengths),
            "transcripts": np.array([0, 1]),
            "lengths": np.array(lengths),
        }
        for kind, array in arrays.items():
            target = io.BytesIO()
            np.save(target, array)
            files[f"breakfast/{kind}/{name}.npy"] = target.getvalue()
    files["breakfast/split1.train"] = b"P03_cam01_P03_tea\n"
    files["breakfast/split1.test"] = b"P04_cam01_P04_tea\n"
    return files


@dataclass
class Publisher:
    """The server's content and behaviour, which tests change while it runs.

    Attributes:
        content: the archive.
        stated: what the record says of it; None: its size and checksum.
        breaks: number of bytes after which each of the next connections ends.
        has_ranges: whether the server knows ranges.
        status: of the next answers for the file, instead of 200 and 206.
        ranges: received values of Range.
        address: of the server.
    """

    content: bytes
    stated: dict[str, object] | None = None
    breaks: list[int] = field(default_factory=list)
    has_ranges: bool = True
    status: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    address: str = ""

    @property
    def etag(self) -> str:
        """Changes with the content."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:12]}"'

    def record(self) -> bytes:
        """The record as Zenodo's interface returns it, as far as it is read."""
        checksum = f"md5:{hashlib.md5(self.content).hexdigest()}"
        file = {"key": ARCHIVE.file, "size": len(self.content), "checksum": checksum, **(self.stated or {})}
        return json.dumps({"id": 5179904, "files": [{"key": "README", "size": 1}, file]}).encode()


@contextmanager
def published(content: bytes) -> Iterator[Publisher]:
    """Starts the server on loopback."""
    publisher = Publisher(content)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Says nothing."""

        def do_GET(self) -> None:
            if self.path == ARCHIVE.record:
                self._send(200, publisher.record(), {})
            elif self.path != ARCHIVE.path:
                self._send(404, b"", {})
            else:
                self._send_file()

        def _send_file(self) -> None:
            wanted = self.headers["Range"]
            publisher.ranges.append(wanted)
            if publisher.status:
                self._send(publisher.status.pop(0), b"", {})
                return
            content, size = publisher.content, len(publisher.content)
            is_same = self.headers["If-Range"] in (None, publisher.etag)
            if wanted is None or not publisher.has_ranges or not is_same:
                self._send(200, content, {"ETag": publisher.etag} if publisher.has_ranges else {})
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= size:
                self._send(416, b"", {"Content-Range": f"bytes */{size}"})
                return
            bounds = f"bytes {start}-{size - 1}/{size}"
            self._send(206, content[start:], {"ETag": publisher.etag, "Content-Range": bounds})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            is_file = self.path == ARCHIVE.path and status in (200, 206)
            self.wfile.write(body[: publisher.breaks.pop(0)] if is_file and publisher.breaks else body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        publisher.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield publisher
        finally:
            server.shutdown()
            thread.join()

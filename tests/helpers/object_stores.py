"""An S3 server on loopback, as moto simulates it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyarrow import fs

S3_SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False).start()
sys.stdin.read()  # until the process of the tests ends
"""
BUCKET = "lab"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test-key-id", "AWS_SECRET_ACCESS_KEY": "test-key-secret"}


def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class S3Server:
    """An S3 server with one bucket, in a process that can be killed and started again; it then has lost its files."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Starts the process, waits until it listens, and makes the bucket."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", S3_SERVER, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self.process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                break
        self.files().create_dir(BUCKET)

    def kill(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.process.communicate()

    def files(self) -> Any:
        """The file system of the server."""
        return fs.S3FileSystem(
            access_key="test-key-id",
            secret_key="test-key-secret",
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def uri(self, name: str) -> str:
        """The URI of a store in the bucket."""
        return f"s3://{BUCKET}/{name}?endpoint_override={self.endpoint}"

    def names(self, name: str) -> list[str]:
        """Names of the files of a store."""
        found = self.files().get_file_info(fs.FileSelector(f"{BUCKET}/{name}", allow_not_found=True))
        return sorted(one.base_name for one in found)

    def put(self, folder: Path, name: str) -> str:
        """Copies the files of a local store as they are; returns its URI."""
        for path in folder.iterdir():
            with self.files().open_output_stream(f"{BUCKET}/{name}/{path.name}") as file:
                file.write(path.read_bytes())
        return self.uri(name)

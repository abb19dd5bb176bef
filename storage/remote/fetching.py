"""Published archives of features: downloads that continue where they broke off, checked and unpacked atomically."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from storage.errors import Problem, StoreError, nearest, some
from storage.failpoints import reach
from storage.remote.unpacking import unpack

TIMEOUT_SECONDS = 60.0
"""How long a server may stay silent."""
ATTEMPTS = 5
"""Connections in a row that bring nothing, after which the download is given up."""
WAIT_SECONDS = 2.0
"""Before the second attempt; twice as long before each further one."""
CHUNK_BYTES = 2**20
AGAIN = "run the same command again, it continues"
STATE, PART = "state.json", ".part"

Progress = Callable[[str, int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A published archive.

    Attributes:
        title: what it contains.
        server: where it is.
        path: of the file on the server.
        record: path of the record on the server, which states size and checksum of the files.
        file: its name.
        size: bytes; None: as the record says.
        checksum: `md5:HEX` or `sha256:HEX`; None: as the record says.
        root: name of a file in the folder that is unpacked.
        options: of the import of the unpacked folder.
    """

    title: str
    server: str
    path: str
    record: str
    file: str
    size: int | None
    checksum: str | None
    root: str
    options: str


ARCHIVES = {
    "breakfast": Archive(
        title="Breakfast, I3D features as the authors of MuCon published them",
        server="https://zenodo.org",
        path="/records/5179904/files/breakfast_i3d.zip?download=1",
        record="/api/records/5179904",
        file="breakfast_i3d.zip",
        size=None,
        checksum=None,
        root="mapping.txt",
        options="--background SIL --fps 15",
    )
}
"""All archives by the name that `fetch` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the file must be.

    Attributes:
        size: bytes.
        checksum: `md5:HEX` or `sha256:HEX`.
    """

    size: int
    checksum: str


def archive_named(name: str) -> Archive:
    """Returns an entry of `ARCHIVES`.

    Raises:
        StoreError: unknown name.
    """
    if name not in ARCHIVES:
        message, hint = f"unknown dataset {name!r}{nearest(name, list(ARCHIVES))}", f"expected {some(ARCHIVES)}"
        raise StoreError(Problem(rule="unknown", place="dataset", value=name, message=message, hint=hint))
    return ARCHIVES[name]


def fetch(
    archive: Archive, target: Path, *, server: str | None, archive_only: bool, say: Say, progress: Progress
) -> None:
    """Downloads an archive and unpacks it.

    What is downloaded is in `.NAME.fetching` beside the target until all of it is there and checked. A later call
    continues it. The target appears with all of its files.

    Args:
        archive: what to download.
        target: folder of the data.
        server: another server with the same paths; None: the archive's own.
        archive_only: the target contains the archive itself.
        say: receives lines for the user.
        progress: receives what is done, the bytes that are done and all bytes.

    Raises:
        StoreError: the target contains files, too little space, no answer, or a file with another size or checksum.
    """
    with _disk_failures(target):
        target = Path(os.path.realpath(target))
        names = {path.name for path in target.iterdir()} if target.is_dir() else set()
    held = target / archive.file
    if names - ({archive.file} if not archive_only else set()) or (target.exists() and not target.is_dir()):
        hint = "choose another folder or empty this one"
        raise StoreError(
            Problem(rule="exists", place=str(target), value=sorted(names), message="already contains files", hint=hint)
        )
    with _working_folder(target) as work, _disk_failures(target):
        expected = _expected(archive, server)
        address = (server or archive.server).rstrip("/") + archive.path
        download = _Download(address, work, archive.file, expected, say=say, progress=progress)
        if held.exists():  # of an earlier call with `archive_only`
            download.adopt(held)
        download.run(0 if archive_only else expected.size)
        reach("storage.fetching.complete")
        if archive_only:
            target.mkdir(exist_ok=True)
            download.complete.replace(held)
        else:
            unpack(download.complete, target, root=archive.root, say=say, progress=progress)
        shutil.rmtree(work)


@contextmanager
def _disk_failures(path: Path) -> Iterator[None]:
    """Converts an `OSError` to a `StoreError`; what is written so far stays."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message, place = f"cannot write ({reason})", str(error.filename or path)
        hint = f"make room, or correct the permissions; {AGAIN}"
        problem = Problem(rule="unwritable", place=place, value=reason, message=message, hint=hint)
        raise StoreError(problem) from error


@contextmanager
def _working_folder(target: Path) -> Iterator[Path]:
    """The folder with the unfinished download, locked against a second process.

    Raises:
        StoreError: another process downloads to this target, or the folder cannot be written.
    """
    work = target.parent / f".{target.name}.fetching"
    with _disk_failures(work):
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = "another process downloads to this folder"
            raise StoreError(Problem(rule="busy", place=str(target), message=message)) from error
        except OSError:  # a file system without locks
            pass
        yield work
    finally:
        if work.is_dir() and not any(work.iterdir()):
            work.rmdir()
        os.close(handle)


def _expected(archive: Archive, server: str | None) -> Expected:
    """Size and checksum from the table, or from the record on the server.

    Raises:
        StoreError: no answer, or a record without them.
    """
    if archive.size is not None and archive.checksum is not None:
        return Expected(size=archive.size, checksum=archive.checksum)
    address = (server or archive.server).rstrip("/") + archive.record
    try:
        with _request(address, {}) as response:
            record = json.load(response)
        (file,) = (file for file in record["files"] if file["key"] == archive.file)
        size, checksum = int(file["size"]), str(file["checksum"])
    except (OSError, http.client.HTTPException) as error:
        raise StoreError(_unreachable(address, error, "try again later, or name a mirror with --server")) from error
    except (ValueError, KeyError, TypeError) as error:
        message = f"the record does not state size and checksum of {archive.file} as expected"
        raise StoreError(Problem(rule="unsupported", place=address, value=archive.file, message=message)) from error
    if checksum.partition(":")[0] not in ("md5", "sha256"):
        expected = "a checksum md5:HEX or sha256:HEX"
        raise StoreError(Problem(rule="unsupported", place=address, value=checksum, expected=expected))
    return Expected(size=size, checksum=checksum)


def _request(address: str, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(address, headers={"User-Agent": "mucon", "Accept-Encoding": "identity", **headers})
    return urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)


def _unreachable(address: str, error: Exception, hint: str) -> Problem:
    reason = getattr(error, "reason", None) or error
    return Problem(rule="unreachable", place=address, value=str(reason), message=f"no answer ({reason})", hint=hint)


class _Download:
    """A file that is downloaded piece by piece, with what is known of it beside it.

    Args:
        address: of the file.
        folder: for the part that is there and its state.
        name: of the complete file.
        expected: size and checksum.
        say: receives lines for the user.
        progress: receives what is done, the bytes that are done and all bytes.
    """

    def __init__(
        self, address: str, folder: Path, name: str, expected: Expected, *, say: Say, progress: Progress
    ) -> None:
        self.address, self.folder, self.name, self.expected = address, folder, name, expected
        self.say, self.progress = say, progress
        self.part, self.complete = folder / f"{name}{PART}", folder / name
        self.validator = ""
        self.digest = self._new_digest()

    def run(self, room_for_files: int) -> None:
        """Downloads what is missing, compares size and checksum, and gives the file its name.

        Args:
            room_for_files: bytes that are needed besides the file.

        Raises:
            StoreError: too little space, no answer, or another size or checksum.
        """
        if self.complete.exists():
            if self._is_same_file():
                return
            self.complete.unlink()
        self._resume()
        _check_room(self.folder, self.expected.size - self.size + room_for_files)
        idle = 0
        while self.size < self.expected.size:
            before, failure = self.size, None
            try:
                self._receive()
            except (OSError, http.client.HTTPException) as error:
                failure = error
            if self.size < self.expected.size:
                idle = 0 if self.size > before else idle + 1
                self._check_failure(failure, idle)
                self.say(f"connection lost after {self.size:,} of {self.expected.size:,} bytes; connecting again")
                time.sleep(WAIT_SECONDS * 2 ** max(idle - 1, 0))
        self._verify()

    @property
    def size(self) -> int:
        """Bytes that are there."""
        return self.part.stat().st_size

    def adopt(self, file: Path) -> None:
        """Takes a complete file, which is then only verified."""
        file.replace(self.part)
        self._write_state()

    def _new_digest(self) -> Any:
        return hashlib.new(self.expected.checksum.partition(":")[0], usedforsecurity=False)

    def _resume(self) -> None:
        """Continues the part of an earlier call, if it is of the same file."""
        if not self.part.exists() or not self._is_same_file() or self.size > self.expected.size:
            if self.part.exists() and self.size:
                self.say(f"the earlier download is of another version of {self.name}; it starts over")
            self._start_over()
            return
        if self.size:
            self.say(f"continues after {self.size:,} of {self.expected.size:,} bytes")
        with self.part.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                self.digest.update(chunk)
                self.progress("checking", file.tell(), self.size)

    def _is_same_file(self) -> bool:
        """Reads the state of an earlier call: whether its file has the expected size and checksum."""
        try:
            state = json.loads((self.folder / STATE).read_text())
            self.validator = str(state.pop("validator"))
        except (OSError, ValueError, KeyError):
            return False
        return bool(state == asdict(self.expected))

    def _start_over(self) -> None:
        with _disk_failures(self.part):
            self.part.write_bytes(b"")
        self.digest, self.validator = self._new_digest(), ""
        self._write_state()

    def _write_state(self) -> None:
        new = self.folder / f"{STATE}.new"
        with _disk_failures(new):
            new.write_text(json.dumps({**asdict(self.expected), "validator": self.validator}))
            new.replace(self.folder / STATE)

    def _check_failure(self, failure: Exception | None, idle: int) -> None:
        """Raises an error if another connection is no use."""
        code = failure.code if isinstance(failure, urllib.error.HTTPError) else 0
        if code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and self.size:
            self._start_over()
        elif idle == ATTEMPTS or (400 <= code < 500 and code not in (408, 429)):
            hint = f"{AGAIN} after {self.size:,} bytes" if self.size else ""
            error = failure or ConnectionError("the connection ended early")
            raise StoreError(_unreachable(self.address, error, hint)) from failure

    def _receive(self) -> None:
        """Appends what one connection sends; starts over if the server sends the whole file.

        Raises:
            OSError, http.client.HTTPException: the connection failed.
            StoreError: another size, or a file that cannot be written.
        """
        has, size = self.size, self.expected.size
        headers = {"Range": f"bytes={has}-"} if has else {}
        if has and self.validator:
            headers["If-Range"] = self.validator
        with _request(self.address, headers) as response:
            if has and response.status != http.HTTPStatus.PARTIAL_CONTENT:
                self.say("the server sends the whole file: it has changed, or the server cannot continue")
                self._start_over()
                has = 0
            start, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
            length = response.headers.get("Content-Length")
            stated = int(total) if total.isdigit() else size if length is None else has + int(length)
            if stated != size or (has and not start.startswith(f"{has}-")):
                message = f"the server offers another file: expected {size:,} bytes, got {stated:,}"
                raise StoreError(Problem(rule="mismatch", place=self.address, value=stated, message=message))
            etag = response.headers.get("ETag", "")
            self.validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
            self._write_state()
            with self.part.open("ab", buffering=0) as file:
                while chunk := response.read(min(CHUNK_BYTES, size - has)):
                    self._write(file, chunk)
                    has += len(chunk)
                    self.progress("downloading", has, size)

    def _write(self, file: FileIO, chunk: bytes) -> None:
        """Writes a piece of the download.

        Raises:
            StoreError: the disk is full, or fails; what is written so far stays.
        """
        reach("storage.fetching.chunk")
        with _disk_failures(self.part):
            rest = memoryview(chunk)
            while rest:  # a full disk takes a part
                rest = rest[file.write(rest) :]
        self.digest.update(chunk)

    def _verify(self) -> None:
        """Compares the checksum and gives the file its name; removes a file with another checksum."""
        found = f"{self.expected.checksum.partition(':')[0]}:{self.digest.hexdigest()}"
        if found != self.expected.checksum:
            self.part.unlink()
            message = f"the downloaded file has another checksum: expected {self.expected.checksum}, got {found}"
            hint = "the file is removed; run the command again, or ask the publisher"
            raise StoreError(Problem(rule="damaged", place=self.address, value=found, message=message, hint=hint))
        with self.part.open("rb") as file:
            os.fsync(file.fileno())
        self.part.replace(self.complete)


def _check_room(folder: Path, needed: int) -> None:
    """Checks the free space of a disk.

    Raises:
        StoreError: less than the needed bytes.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        message = f"{free:,} bytes are free, but the download and its files need at least {needed:,}"
        raise StoreError(Problem(rule="unwritable", place=str(folder), value=free, message=message, hint="make room"))

"""Reads and writes files in a folder at a URI."""

from __future__ import annotations

import importlib.metadata
import netrc
import os
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import IO, Any, Protocol
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from storage.errors import Problem, StoreError, some
from storage.remote.addresses import credentials_hint
from storage.remote.secrets import redacted

TIMEOUT_SECONDS = 20.0
"""How long a server may stay silent."""
ATTEMPTS = 3
"""How often a request to S3 is sent."""
S3_PARAMETERS = ("anonymous", "endpoint_override", "region", "scheme")
ARROW_SCHEMES = ("abfs", "abfss", "gs", "gcs", "hdfs", "viewfs")
"""Schemes that pyarrow opens, besides s3."""


class Transport(Protocol):
    """A folder at a URI. Errors are `OSError`, with `FileNotFoundError` for a missing file."""

    def open(self, name: str) -> Any:
        """Opens a file of the folder for reading, as a context manager with `read(n)`."""

    def write(self, name: str, source: IO[bytes]) -> None:
        """Writes a file of the folder; no reader sees a part of it."""

    def names(self) -> dict[str, float]:
        """Names of the files in the folder, with the time of their last change in seconds."""

    def remove(self, name: str) -> None:
        """Removes a file of the folder."""


def transport_of(address: str) -> Transport:
    """Opens the folder at a URI.

    Args:
        address: a URI from `place_of`.

    Raises:
        StoreError: an unknown scheme or parameter, a missing package, or no access.
    """
    parts = urlsplit(address)
    with reported(address, "open"):
        if parts.scheme in ("http", "https"):
            return HttpFolder(parts)
        if parts.scheme == "s3":
            return ArrowFolder(_s3(address, parts), f"{parts.netloc}{parts.path}")
        if parts.scheme in ARROW_SCHEMES:
            return _arrow(address, parts)
        return _fsspec(address, parts.scheme)


@contextmanager
def reported(address: str, action: str) -> Iterator[None]:
    """Turns errors of a transport, of any library, into a `StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # fsspec's file systems raise exceptions of many libraries
        message = f"cannot {action} ({' '.join(redacted(str(error)).split()) or type(error).__name__})"
        hint = f"check address, network and access; {credentials_hint(address)}; then run the command again"
        raise StoreError(Problem(rule="unreachable", place=redacted(address), message=message, hint=hint)) from error


class HttpFolder:
    """A folder of a web server, read-only."""

    def __init__(self, parts: SplitResult) -> None:
        self._parts = parts

    def open(self, name: str) -> Any:
        """See `Transport`."""
        parts = self._parts
        request = urllib.request.Request(parts._replace(path=f"{parts.path}/{quote(name)}").geturl())
        if login := _login(parts.hostname or ""):
            request.add_unredirected_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        try:
            return _Response(urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError(f"{name}: status {error.code}") from error
            raise OSError(f"{name}: status {error.code} {error.reason}") from error

    def write(self, name: str, source: IO[bytes]) -> None:
        """Raises an error: a web server takes no files."""
        raise self._read_only()

    def names(self) -> dict[str, float]:
        """Raises an error: a web server lists no files."""
        raise self._read_only()

    def remove(self, name: str) -> None:
        """Raises an error: a web server removes no files."""
        raise self._read_only()

    def _read_only(self) -> StoreError:
        message, hint = "stores at http(s):// can only be read", "write to a path, or to s3://"
        return StoreError(Problem(rule="unsupported", place=self._parts.geturl(), message=message, hint=hint))


class _Response:
    """The body of an answer; raises an error if the connection ends before it."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __enter__(self) -> _Response:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def read(self, n: int) -> bytes:
        """Reads at most n bytes."""
        block: bytes = self._response.read(n)
        if not block and self._response.length:
            raise OSError(f"the connection was closed {self._response.length} bytes before the end")
        return block


def _login(host: str) -> str:
    """`USER:PASSWORD` of a host in the .netrc file; empty without one."""
    try:
        found = netrc.netrc(os.environ.get("NETRC") or None).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return ""
    return f"{found[0]}:{found[2]}" if found else ""


class ArrowFolder:
    """A folder of a file system of pyarrow.

    Args:
        files: the file system.
        path: the folder in it.
        is_atomic: whether a file appears when it is complete, as on object stores.
    """

    def __init__(self, files: Any, path: str, *, is_atomic: bool = True) -> None:
        self._files = files
        self._path = path.rstrip("/")
        self._is_atomic = is_atomic

    def open(self, name: str) -> Any:
        """See `Transport`."""
        return self._files.open_input_stream(self._at(name))

    def write(self, name: str, source: IO[bytes]) -> None:
        """See `Transport`."""
        unfinished = self._at(name if self._is_atomic else f"{name}.unfinished")
        if not self._is_atomic:
            self._files.create_dir(self._path, recursive=True)
        with self._files.open_output_stream(unfinished) as file:
            while chunk := source.read(CHUNK):
                file.write(chunk)
        if not self._is_atomic:
            self._files.move(unfinished, self._at(name))

    def names(self) -> dict[str, float]:
        """See `Transport`."""
        from pyarrow.fs import FileSelector, FileType

        found = self._files.get_file_info(FileSelector(self._path, allow_not_found=True))
        files = [one for one in found if one.type == FileType.File]
        return {one.base_name: one.mtime.timestamp() if one.mtime else 0.0 for one in files}

    def remove(self, name: str) -> None:
        """See `Transport`."""
        self._files.delete_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


CHUNK = 8 * 2**20
"""Bytes of one request for a part of a file."""


def _s3(address: str, parts: SplitResult) -> Any:
    from pyarrow import fs

    given = dict(parse_qsl(parts.query))
    if unknown := [name for name in given if name not in S3_PARAMETERS]:
        expected = f"parameters {', '.join(S3_PARAMETERS)}"
        raise StoreError(Problem(rule="unknown", place=address, value=some(unknown), expected=expected))
    endpoint = given.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL_S3")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL") or ""
    scheme, colon, host = endpoint.rpartition("://")
    region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(parts.netloc)
    return fs.S3FileSystem(
        region=region,
        endpoint_override=host or None,
        scheme=scheme if colon else given.get("scheme", "https"),
        anonymous=given.get("anonymous", "").lower() in ("1", "true"),
        connect_timeout=TIMEOUT_SECONDS,
        request_timeout=TIMEOUT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        background_writes=False,
    )


def _arrow(address: str, parts: SplitResult) -> ArrowFolder:
    from pyarrow import fs

    if parts.scheme in ("gs", "gcs") and not parts.query:
        return ArrowFolder(
            fs.GcsFileSystem(retry_time_limit=timedelta(seconds=TIMEOUT_SECONDS)), f"{parts.netloc}{parts.path}"
        )
    files, path = fs.FileSystem.from_uri(address)
    return ArrowFolder(files, path, is_atomic=parts.scheme not in ("hdfs", "viewfs"))


def _fsspec(address: str, scheme: str) -> ArrowFolder:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        import fsspec
    except ImportError as error:
        raise _lacking(address, "fsspec", "fsspec") from error
    if scheme not in fsspec.available_protocols():
        message, hint = f"unknown scheme {scheme}://", "s3, gs, abfs, hdfs, http, https, file, or one of fsspec"
        raise StoreError(Problem(rule="unknown", place=address, value=scheme, message=message, hint=hint))
    try:
        files, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        extras = importlib.metadata.metadata("fsspec").get_all("Provides-Extra") or []
        package = f"fsspec[{scheme}]" if scheme in extras else ""
        raise _lacking(address, str(error), package) from error
    return ArrowFolder(PyFileSystem(FSSpecHandler(files)), path, is_atomic=False)


def _lacking(address: str, what: str, package: str) -> StoreError:
    message = f"a package for this kind of address is missing ({what})"
    hint = f"pip install '{package}'" if package else "install it with pip"
    return StoreError(Problem(rule="unsupported", place=address, value=package, message=message, hint=hint))

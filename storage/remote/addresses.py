"""Places of stores: local paths and URIs.

Imports neither numpy nor pyarrow, so that command line parsers start fast.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from storage.errors import Problem, StoreError
from storage.remote.secrets import HIDDEN, without_passwords

StorePlace = Path | str
"""A local path, or the URI of a store at another place as a string."""
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "http": "a .netrc file",
    "https": "a .netrc file",
}
_URI = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_MANGLED = re.compile(r"(?:s3|gs|gcs|abfss?|hdfs|https?|file):/")
"""Beginning of a URI without its second slash, which `Path` removes."""


def is_uri(place: object) -> bool:
    """Returns whether a place is a URI, not a local path.

    >>> is_uri("s3://bucket/store"), is_uri("stores/tug")
    (True, False)
    """
    return isinstance(place, str) and _URI.match(place) is not None


def place_of(given: str | os.PathLike[str]) -> StorePlace:
    """The place that a text or path names: a path, also for `file://`, or a URI without slashes at its end.

    Raises:
        StoreError: a URI without its second slash, which may be a `Path`, without a host or bucket, with a fragment, or
            with a password; a web address with a user name, which may be a token.

    >>> place_of("S3://bucket/stores/tug/?region=eu-west-1"), str(place_of("file:///data/my%20store"))
    ('s3://bucket/stores/tug?region=eu-west-1', '/data/my store')
    """
    if not is_uri(text := os.fspath(given)):
        if _MANGLED.match(text):
            value, expected = ("Path", "the URI as a string")
            if isinstance(given, str):
                value, expected = text, "two slashes after the colon of a URI"
            hint = "a folder of this name is given by its absolute path"
            raise StoreError(Problem(rule="type", place=text, value=value, expected=expected, hint=hint))
        return Path(text)
    scheme, _, rest = text.partition("://")
    shown = without_passwords(text)
    try:
        parts = urlsplit(f"{scheme.lower()}://{rest}")
    except ValueError as error:
        raise StoreError(Problem(rule="type", place=shown, value=shown, message=f"not a URI ({error})")) from error
    is_token = parts.scheme in ("http", "https") and parts.username
    if shown != text or parts.password or is_token:
        if HIDDEN not in shown:
            shown = f"{scheme.lower()}://{HIDDEN}@{parts.hostname}{parts.path}"
        message = "a URI with a password would appear in records and process lists"
        raise StoreError(Problem(rule="unsupported", place=shown, message=message, hint=credentials_hint(shown)))
    if parts.fragment:
        problem = Problem(rule="unsupported", place=text, value=parts.fragment, message="a URI of a store has no #")
        raise StoreError(problem)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path or parts.query:
            message = "expected file:///PATH with an absolute path of this machine, a question mark as %3F"
            raise StoreError(Problem(rule="unsupported", place=text, value=parts.netloc, message=message))
        return Path(unquote(parts.path))
    if not parts.netloc:
        raise StoreError(Problem(rule="missing", place=text, message="the URI names no host or bucket"))
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{query}"


def credentials_hint(address: str) -> str:
    """Where the credentials for a URI come from."""
    named = _CREDENTIALS.get(urlsplit(address).scheme)
    return f"credentials come from the environment{f' ({named})' if named else ''}"


def place(text: str) -> StorePlace:
    """`place_of` as the type of an argument of a command line."""
    try:
        return place_of(text)
    except StoreError as error:
        raise argparse.ArgumentTypeError(error.line) from None


def local_place(text: str) -> Path:
    """A local path as the type of an argument; refuses URIs."""
    found = place(text)
    if isinstance(found, Path):
        return found
    hint = "give a local path; `mucon store import` and `mucon store synthesize` write to a URI"
    raise argparse.ArgumentTypeError(f"{found}: this command needs a local folder; {hint}")


def absolute(place: StorePlace) -> str:
    """The place of a store as records contain it: an absolute path, or a URI."""
    return place if isinstance(place, str) and is_uri(place) else str(Path(place).expanduser().absolute())


def name_of(place: str | os.PathLike[str]) -> str:
    """The last part of the place of a store, which names it in tables and figures.

    >>> name_of("/data/stores/tug"), name_of("s3://bucket/stores/tug?endpoint_override=http://host:9000")
    ('tug', 'tug')
    >>> name_of("gs://bucket")
    'bucket'
    """
    text = os.fspath(place)
    if not is_uri(text):
        return PurePath(text).name
    parts = urlsplit(text)
    return unquote(PurePath(parts.path).name) or parts.netloc

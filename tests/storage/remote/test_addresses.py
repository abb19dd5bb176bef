"""Places of stores: paths, URIs, and what is refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from storage import StoreError, open_store
from storage.remote.addresses import absolute, name_of, place, place_of
from tests.helpers.refusals import refused

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stores/tug", Path("stores/tug")),
        ("/data/s3:/tug", Path("/data/s3:/tug")),
        ("a:b/tug", Path("a:b/tug")),
        ("C:\\tug", Path("C:\\tug")),
        ("file:///data/my%20store/", Path("/data/my store")),
        ("file://localhost/data/tug", Path("/data/tug")),
        ("s3://bucket/tug//", "s3://bucket/tug"),
        ("S3://Bucket/tug/?region=eu-west-1", "s3://Bucket/tug?region=eu-west-1"),
        ("https://host:8443/stores/tug/", "https://host:8443/stores/tug"),
    ],
)
def test_a_place_is_a_path_or_a_uri(text: str, expected: Path | str) -> None:
    assert place_of(text) == place(text) == expected
    assert place_of(absolute(place_of(text))) == (expected if isinstance(expected, str) else expected.absolute())


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://key:{SECRET}@bucket/tug",
        f"https://me:{SECRET}@host/tug",
        f"https://:{SECRET}@host/tug",
        f"s3://bucket/tug?secret_key={SECRET}",
        f"s3://bucket/tug?region=x&access_key={SECRET}",
        f"https://host/tug?X-Amz-Signature={SECRET}",
        f"abfs://box/tug?sig={SECRET}",
        f"https://host/tug?token={SECRET}",
        f"https://host/tug?key={SECRET}",
        f"https://host/tug?v=1&Authorization={SECRET}",
        f"https://{SECRET}@host/tug",
        f"https://me%3A{SECRET}@host/tug",
        f"http://[me:{SECRET}@host/tug",
    ],
)
def test_a_uri_with_a_password_is_refused_and_not_repeated(uri: str) -> None:
    with refused("type" if "[" in uri else "unsupported", n=1, error=StoreError) as refusal:
        open_store(uri)
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        place(uri)
    for text in (str(raised.value), repr(refusal.problems)):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("uri", "rule"),
    [
        ("file://host/data/tug", "unsupported"),
        ("file:///data/tug?1", "unsupported"),
        ("http://[::1/tug", "type"),
        ("s3:/bucket/tug", "type"),
        ("file:/data/tug", "type"),
        ("s3:///tug", "missing"),
        ("s3://bucket/tug#x", "unsupported"),
        ("s3://bucket/tug?speed=1", "unknown"),
        ("nothing://bucket/tug", "unknown"),
        ("sftp://host/tug", "unsupported"),  # its package is not installed
    ],
)
def test_a_uri_that_cannot_be_opened_is_one_problem(
    uri: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path))
    with refused(rule, place=uri, n=1, error=StoreError):
        open_store(uri)


def test_a_uri_that_a_path_has_mangled_is_refused() -> None:
    with refused("type", place="s3:/lab/tug", n=1, error=StoreError):
        open_store(Path("s3://lab/tug"))


def test_the_name_of_a_store_is_the_last_part_of_its_place() -> None:
    assert name_of("s3://bucket/stores/my%20tug?endpoint_override=http://127.0.0.1:9000/x") == "my tug"
    assert name_of("https://host") == "host"
    assert name_of(Path("stores/tug")) == "tug"

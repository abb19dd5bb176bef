"""`mucon store cache`, and the other store commands with URIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import open_store
from storage.cli import main
from storage.remote.cache import Cache
from storage.remote.uploading import target_of
from tests.helpers.remote_stores import Site, site_of
from tests.storage.helpers import DataSet, clips_of, flip, write_store


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A web server of two stores; the cache is empty."""
    monkeypatch.setenv("MUCON_CACHE_DIR", str(tmp_path / "cache"))
    for name in "ab":
        write_store(tmp_path / "site" / name, clips_of([30, 40, 50], seed=ord(name)))
    with site_of(tmp_path / "site") as site:
        yield site


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, bool]:
    assert main(["cache", "list", "--json"]) == 0
    content = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert content["format_version"] == 1
    assert content["bytes"] == sum(one["bytes"] for one in content["stores"]) <= content["limit"]
    assert all(one["complete"] and one["last_used"] > 1e9 for one in content["stores"])
    return {address: one["in_use"] for one in content["stores"] for address in one["addresses"]}


def test_the_cache_is_listed_and_cleared_except_for_what_is_open(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = site.uri("a"), site.uri("b")
    store = open_store(a)
    assert main(["inspect", b]) == 0
    assert capsys.readouterr().out.split()[:2] == ["store", b]
    assert listed(capsys) == {a: True, b: False}
    assert main(["cache", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["cache", "clear", "--unused-for", "1h"]) == 0
    assert set(listed(capsys)) == {a, b}
    assert main(["cache", "clear", a]) == 2
    assert capsys.readouterr().err.startswith(f"error: {a}: ")
    assert main(["cache", "clear", site.uri("c")]) == 2
    assert main(["cache", "clear", f"{b}/"]) == 0
    capsys.readouterr()
    assert set(listed(capsys)) == {a}
    assert store.features("v000").shape == (30, 4)
    del store
    assert main(["cache", "clear"]) == 0
    capsys.readouterr()
    assert listed(capsys) == {}
    assert [path.name for path in Cache.configured().folder.rglob("*") if path.is_file()] == ["room"]


def test_verify_finds_a_flipped_byte_and_the_file_is_fetched_again(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = site.uri("a")
    assert main(["verify", uri]) == 0
    path = open_store(uri).path / "features-00000.parquet"
    assert main(["cache", "verify"]) == 0
    flip(path, 200)
    capsys.readouterr()
    assert main(["verify", uri]) == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {path}: ")
    assert last.startswith(f"error: {uri}: ")
    assert "cache verify" in last
    assert main(["cache", "verify"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: ")
    assert main(["verify", uri]) == 0
    assert main(["cache", "verify"]) == 0


def test_an_import_writes_to_a_uri_and_refuses_an_existing_store(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, uri = DataSet.example().write(tmp_path / "src"), "memory://bucket/imported"
    assert main(["import", str(source), uri, "--background", "SIL"]) == 0
    assert capsys.readouterr().out.count(uri) == 1
    assert main(["import", str(source), uri]) == 2
    assert capsys.readouterr().err.startswith(f"error: {uri}: ")
    assert main(["import", str(source), uri, "--replace"]) == 0
    assert len(open_store(uri)) == 4
    with target_of(tmp_path / "local") as folder:
        assert folder == tmp_path / "local"

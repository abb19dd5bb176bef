import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import StoreError
from storage.manifest import FileEntry, Manifest, Shard

names = st.lists(st.text(min_size=1, max_size=5), max_size=4).map(tuple)
numbers = st.none() | st.floats(0.1, 1e6)
manifests = st.builds(
    Manifest,
    dim=st.integers(1, 4096),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    vocabulary=names,
    background=names,
    fps=numbers,
    window=numbers,
    stride=numbers,
    offset=numbers,
    splits=names,
    n_videos=st.integers(0, 10**9),
    n_frames=st.integers(0, 10**12),
    videos=st.just(FileEntry(file="videos.parquet", bytes=10, sha256="ab")),
    shards=st.lists(
        st.just(Shard(file="features-00000.parquet", bytes=9, sha256="cd", row_groups=2, frames=7)), max_size=2
    ).map(tuple),
    metadata=st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.lists(st.booleans())),
    format_version=st.just(1),
)


@given(manifests)
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert Manifest.from_json(manifest.to_json(), "m") == manifest


def example() -> dict:
    manifest = Manifest(
        dim=4,
        dtype="float16",
        vocabulary=("a",),
        background=(),
        fps=None,
        window=None,
        stride=None,
        offset=None,
        splits=("1",),
        n_videos=1,
        n_frames=2,
        videos=FileEntry(file="videos.parquet", bytes=10, sha256="ab"),
        shards=(Shard(file="features-00000.parquet", bytes=9, sha256="cd", row_groups=1, frames=2),),
    )
    return json.loads(manifest.to_json())


def told(value: object) -> str:
    with pytest.raises(StoreError) as caught:
        Manifest.from_json(value if isinstance(value, bytes) else json.dumps(value), "here/manifest.json")
    (problem,) = caught.value.problems
    assert "here/manifest.json" in problem
    assert "\n" not in problem
    return problem


def test_another_format_version_says_what_was_found_what_is_known_and_what_to_do():
    problem = told({**example(), "format_version": 2})
    assert "format version is 2, this program knows 1" in problem
    assert "install a newer mucon, or import the recordings again" in problem
    assert "import the recordings again" in told({**example(), "format_version": 0})
    assert "format version is None" in told({"format": "mucon-store"})
    assert "format version is True" in told({**example(), "format_version": True})


def test_the_version_is_told_before_anything_else_of_a_newer_format():
    assert "format version is 7" in told({"format": "mucon-store", "format_version": 7, "pages": []})


@pytest.mark.parametrize("value", [b"{", b"", b"\xff\xfe{", b"[1", b"{'a': 1}"])
def test_what_is_no_json_is_told(value):
    assert "a manifest is JSON" in told(value)


@pytest.mark.parametrize("value", [[], {}, 3, {"format": "parquet"}])
def test_another_json_is_no_store(value):
    assert "this is no feature store" in told(value)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("dim", 0),
        ("dim", "4"),
        ("dtype", "int8"),
        ("vocabulary", "abc"),
        ("vocabulary", [1]),
        ("fps", "25"),
        ("n_videos", -1),
        ("n_frames", True),
        ("videos", {"file": "videos.parquet"}),
        ("videos", {"file": "../videos.parquet", "bytes": 10, "sha256": "ab"}),
        ("shards", {}),
        ("shards", [{"file": "x", "bytes": 1, "sha256": "ab", "row_groups": 1}]),
        ("metadata", []),
        ("sha256", None),
    ],
)
def test_a_field_of_the_wrong_type_is_named(field, wrong):
    assert f"lacks these or has them wrong: {field}:" in told({**example(), field: wrong})


def test_all_missing_fields_are_named_together():
    value = example()
    for field in ("dim", "shards", "videos"):
        del value[field]
    assert "dim, videos, shards" in told(value)


def test_an_edited_manifest_is_told():
    assert "does not: it was damaged or edited" in told({**example(), "vocabulary": ["b"]})


def test_keys_of_later_programs_are_passed_over_when_the_checksum_covers_them(tmp_path):
    from tests.storage.helpers import change_manifest

    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(example()))
    change_manifest(tmp_path, lambda value: value.update(colour="blue"))
    assert Manifest.from_json(path.read_text(), "m").dim == 4

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import StoreError
from storage.format.manifest import FileEntry, Manifest, Shard
from tests.helpers.refusals import ANY, Refusal, refused
from tests.storage.helpers import change_manifest

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
def test_a_manifest_survives_a_round_trip(manifest):
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


def refusal_of(value: object, rule: str, place: str = "here/manifest.json", found: object = ANY) -> Refusal:
    text = value if isinstance(value, bytes) else json.dumps(value)
    with refused(rule, place, found, error=StoreError) as refusal:
        Manifest.from_json(text, "here/manifest.json")
    assert all(place.startswith("here/manifest.json") for place in refusal.places)
    assert "\n" not in "".join(map(str, refusal.problems))
    return refusal


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ({**example(), "format_version": 2}, 2),
        ({**example(), "format_version": 0}, 0),
        ({"format": "mucon-store"}, None),
        ({**example(), "format_version": True}, True),
    ],
)
def test_another_format_version_is_refused_with_a_hint(value, version):
    (problem,) = refusal_of(value, "version", found=version).problems
    assert {repr(version) + ",", "1"} <= set(problem.message.split())
    assert ("newer mucon" in problem.hint) == (version == 2)
    assert "import" in problem.hint


def test_the_version_of_a_newer_format_is_checked_first():
    value = {"format": "mucon-store", "format_version": 7, "pages": []}
    assert refusal_of(value, "version", found=7).rules == ["version"]


@pytest.mark.parametrize(
    "value",
    [b"{", b"", b"\xff\xfe{", b"[1", b"{'a': 1}", b"[" * 10**5, b"1" * 5000],
    ids=["open", "empty", "other encoding", "list", "quotes", "depth", "digits"],
)
def test_invalid_json_is_refused(value):
    assert refusal_of(value, "unreadable").rules == ["unreadable"]


@pytest.mark.parametrize(("value", "found"), [([], "list"), ({}, None), (3, "int"), ({"format": "parquet"}, "parquet")])
def test_other_json_is_not_a_store(value, found):
    assert refusal_of(value, "type", found=found).rules == ["type"]


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
def test_a_field_of_the_wrong_type_is_reported(field, wrong):
    refusal = refusal_of({**example(), field: wrong}, "type", found=wrong)
    assert refusal.places == [f"here/manifest.json: {field}"]


def test_all_missing_fields_are_reported_together():
    value = example()
    for field in ("dim", "shards", "videos"):
        del value[field]
    refusal = refusal_of(value, "missing")
    assert refusal.rules == ["missing"] * 3
    assert [place.split()[-1] for place in refusal.places] == ["dim", "videos", "shards"]


def test_an_edited_manifest_is_refused():
    value = {**example(), "vocabulary": ["b"]}
    assert refusal_of(value, "damaged", found=value["sha256"]).rules == ["damaged"]


def test_unknown_keys_are_ignored_if_the_checksum_covers_them(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(example()))
    change_manifest(tmp_path, lambda value: value.update(colour="blue"))
    assert Manifest.from_json(path.read_text(), "m").dim == 4

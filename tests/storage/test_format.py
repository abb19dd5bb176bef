"""The file format: content of the files, and a store of the first version that must stay readable."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import StoreWriter, open_store
from storage.constants import Limits
from storage.format.manifest import Manifest
from storage.format.pages import read_page_header
from storage.format.schema import VIDEOS_SCHEMA
from storage.verify import verify_store
from tests.storage.helpers import clips_of, flip, write_store

STORE_V1 = Path(__file__).parents[1] / "data" / "store_v1"
FORMAT = (Path(__file__).parents[2] / "storage" / "FORMAT.md").read_text()
CLIPS = clips_of([40, 30, 60, 200, 20, 90, 100, 8], dtype="float16", dim=6)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store") / "s", CLIPS)


def columns(store):
    for file in sorted(store.glob("features-*.parquet")):
        metadata = pq.ParquetFile(file).metadata
        for group in range(metadata.num_row_groups):
            yield file, metadata.row_group(group), metadata.row_group(group).column(0)


def test_a_frame_is_one_required_value_and_the_schema_has_dtype_and_dim(store):
    for file in sorted(store.glob("features-*.parquet")):
        schema = pq.read_schema(file)
        assert schema.names == ["frame"]
        assert schema.field(0).type == pa.binary(12)
        assert not schema.field(0).nullable
        assert {key: schema.metadata[key] for key in (b"dtype", b"dim", b"format_version")} == {
            b"dtype": b"float16",
            b"dim": b"6",
            b"format_version": b"1",
        }
        parquet = pq.ParquetFile(file).schema.column(0)
        assert (parquet.physical_type, parquet.max_definition_level) == ("FIXED_LEN_BYTE_ARRAY", 0)


def test_a_row_group_is_one_plain_aligned_page_with_a_checksum(store):
    chunks = list(columns(store))
    assert len(chunks) > 3
    for file, group, column in chunks:
        assert (column.compression, column.has_dictionary_page, column.statistics) == ("UNCOMPRESSED", False, None)
        data = file.read_bytes()[column.data_page_offset :]
        header = read_page_header(data)
        assert header.is_plain(group.num_rows, 12)
        assert header.header_bytes + header.stored_bytes == column.total_compressed_size
        assert (column.data_page_offset + header.header_bytes) % 64 == 0


def test_page_checksums_are_written(tmp_path):
    path = write_store(tmp_path / "s", CLIPS)
    file, group, column = next(columns(path))
    assert group.num_rows > 0
    flip(file, column.data_page_offset + column.total_compressed_size - 1)
    pq.ParquetFile(file).read_row_group(0)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.ParquetFile(file, page_checksum_verification=True).read_row_group(0)


def test_other_programs_read_the_rows_as_they_were_written(store):
    rows = {}
    for file in sorted(store.glob("features-*.parquet")):
        rows[file.name] = pq.read_table(file)["frame"].to_pylist()
    for record in pq.read_table(store / "videos.parquet").to_pylist():
        shard = store / f"features-{record['shard']:05d}.parquet"
        group = pq.ParquetFile(shard).read_row_group(record["row_group"])["frame"].to_pylist()
        clip = group[record["first_row"] : record["first_row"] + record["frames"]]
        assert b"".join(clip) == CLIPS[record["id"]].tobytes()


def test_the_records_have_the_columns_of_the_schema(store):
    schema = pq.read_schema(store / "videos.parquet")
    assert schema.remove_metadata().equals(VIDEOS_SCHEMA)


def test_the_document_names_every_column_and_key():
    for name in VIDEOS_SCHEMA.names:
        assert f"`{name}`" in FORMAT, name
    for name in Manifest.__dataclass_fields__:
        assert f"`{name}`" in FORMAT, name


def test_the_default_limits_match_the_document():
    assert Limits() == Limits(row_group_bytes=4 * 2**20, shard_row_groups=4096, shard_bytes=2 * 2**30)
    for words in ("4 MiB", "4,096 row groups", "2 GiB"):
        assert words in FORMAT


def test_a_clip_of_71000_frames_is_one_page_and_mapped(tmp_path):
    features = np.random.default_rng(0).integers(0, 2**14, size=(71_000, 400), dtype=np.uint16).view(np.float16)
    with StoreWriter(tmp_path / "s", dim=400, dtype="float16", vocabulary=["a"]) as writer:
        writer.add("short", features[:5], transcript=(0,))
        writer.add("long", features, transcript=(0,))
        writer.add("other", features[5:10], transcript=(0,))
    store = open_store(tmp_path / "s")
    assert all(store.is_mapped(video) for video in store.ids)
    assert np.array_equal(store.features("long"), features)
    assert np.array_equal(store.features("other"), features[5:10])
    assert store.manifest.shards[0].row_groups == 3


def value(video: int, frames: int, dim: int = 6) -> np.ndarray:
    """Features of the committed store: quarters, exact in every dtype, after some silent frames."""
    t, d = np.mgrid[:frames, :dim]
    features = ((7 * t + 3 * d + 5 * video) % 23 - 11) / 4
    features[: 3 * video] = 0
    return features


GOLDEN = {
    "P03/tea": (9, ((0, 2, 1), (2, 4, 3)), ("1:train", "2:test"), "P03", "tea"),
    "P03_coffee": (20, ((0, 1), (5, 15)), ("1:train",), "P03", "coffee"),
    "P10_tea": (1, ((2,), (1,)), ("1:test", "2:train"), "P10", "tea"),
    "P11_größe": (40, ((1, 1, 0), None), ("2:train",), None, None),
    "P12_new": (13, (None, None), (), "P12", None),
}
"""Frames, transcript and lengths, splits, group, activity. The third clip has silent frames only."""


def write_golden(path: Path) -> None:
    """Writes the content of `tests/data/store_v1`."""
    with StoreWriter(
        path,
        dim=6,
        dtype="float16",
        vocabulary=("SIL", "pour milk", "stir"),
        background=("SIL",),
        fps=12.5,
        window=1.28,
        stride=0.08,
        offset=-0.5,
        metadata={"features": "made up", "layers": [1, 2]},
        limits=Limits(row_group_bytes=300, shard_row_groups=2, shard_bytes=800),
    ) as writer:
        for index, (video, (frames, (transcript, lengths), splits, group, activity)) in enumerate(GOLDEN.items()):
            features = value(index, frames)
            labels = {"transcript": transcript, "lengths": lengths}
            writer.add(video, features, **labels, splits=splits, group=group, activity=activity)


def check_golden(path: Path) -> None:
    store = open_store(path)
    manifest = store.manifest
    assert (manifest.format_version, manifest.dim, manifest.dtype) == (1, 6, "float16")
    assert (manifest.vocabulary, manifest.background) == (("SIL", "pour milk", "stir"), ("SIL",))
    assert (manifest.fps, manifest.window, manifest.stride, manifest.offset) == (12.5, 1.28, 0.08, -0.5)
    assert (manifest.splits, manifest.n_videos, manifest.n_frames) == (("1", "2"), 5, 83)
    assert manifest.metadata == {"features": "made up", "layers": [1, 2]}
    assert [(shard.row_groups, shard.frames) for shard in manifest.shards] == [(2, 30), (2, 53)]
    assert store.ids == tuple(sorted(GOLDEN))
    assert store.split("2", "train") == ("P10_tea", "P11_größe")
    for index, (video, (frames, (transcript, lengths), splits, group, activity)) in enumerate(GOLDEN.items()):
        record = store.record(video)
        assert (record.frames, record.transcript, record.lengths) == (frames, transcript, lengths)
        assert (record.splits, record.group, record.activity) == (splits, group, activity)
        expected = value(index, frames)
        assert np.array_equal(store.features(video), expected)
        active = (3 * index, frames - 1) if 3 * index < frames else (None, None)
        assert (record.statistics.first_active, record.statistics.last_active) == active
        assert (record.statistics.minimum, record.statistics.maximum) == (expected.min(), expected.max())
    assert store.record("P03/tea").sha256 == "c16f1352941b630f87b4a7d9ea0a236a5bf7e1953dfef9599e5a75c37ebd870e"
    places = {"P03/tea": (0, 0, 0), "P03_coffee": (0, 1, 0), "P10_tea": (0, 1, 20), "P11_größe": (1, 0, 0)}
    for video, place in {**places, "P12_new": (1, 1, 0)}.items():
        record = store.record(video)
        assert (record.shard, record.row_group, record.first_row) == place
    assert verify_store(path).problems == ()


def test_the_store_of_the_first_version_stays_readable():
    check_golden(STORE_V1)
    assert all(open_store(STORE_V1).is_mapped(video) for video in GOLDEN)


def test_this_version_writes_the_same_content(tmp_path):
    write_golden(tmp_path / "s")
    check_golden(tmp_path / "s")
    today, then = open_store(tmp_path / "s"), open_store(STORE_V1)
    assert [today.record(video).sha256 for video in GOLDEN] == [then.record(video).sha256 for video in GOLDEN]
    assert replace(today.manifest, videos=then.manifest.videos, shards=then.manifest.shards) == then.manifest


def test_the_committed_store_is_small_and_matches_the_sizes_in_its_manifest():
    sizes = {file.name: file.stat().st_size for file in STORE_V1.iterdir()}
    assert sum(sizes.values()) == open_store(STORE_V1).manifest.n_bytes < 20_000

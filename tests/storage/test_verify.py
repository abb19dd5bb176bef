import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import StoreError, open_store
from storage.shards import file_digest
from storage.verify import Verification, verify_store
from tests.storage.helpers import change_manifest, clips_of, files_of, flip, rewrite_shards, write_store

CLIPS = clips_of([40, 30, 60, 1, 200, 20, 90, 100, 8])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store") / "s", CLIPS)


@pytest.fixture
def store(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "s"))


def place_of(store: Path, video: str) -> tuple[Path, int]:
    """The file and the offset of a clip's bytes, found by searching for them."""
    data = CLIPS[video].tobytes()
    for file in sorted(store.glob("features-*.parquet")):
        offset = file.read_bytes().find(data)
        if offset >= 0:
            return file, offset
    raise AssertionError(video)


def test_a_whole_store_has_no_problem(whole):
    size = sum(file.stat().st_size for file in whole.glob("features-*.parquet"))
    assert verify_store(whole) == Verification(len(CLIPS), size, ())


@pytest.mark.parametrize("video", sorted(CLIPS))
def test_a_flipped_byte_of_features_names_the_clip_and_nothing_else(store, video):
    file, offset = place_of(store, video)
    flip(file, offset + len(CLIPS[video].tobytes()) // 2)
    (problem,) = verify_store(store).problems
    assert f"those of {video!r} do not ({file.resolve()}, row group " in problem
    assert "copy or import the store again" in problem


def test_two_damaged_clips_are_both_named(store):
    for video in ("v000", "v007"):
        flip(*place_of(store, video))
    assert ["'v000'" in p or "'v007'" in p for p in verify_store(store).problems] == [True, True]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_flipped_byte_of_any_file_is_found(whole, tmp_path_factory, data):
    store = whole
    file = store / data.draw(st.sampled_from(sorted(files_of(store))))
    position = data.draw(st.integers(0, file.stat().st_size - 1))
    mask = 1 << data.draw(st.integers(0, 7))
    flip(file, position, mask)
    try:
        problems = verify_store(store).problems
    finally:
        flip(file, position, mask)
    assert problems
    assert all("\n" not in problem for problem in problems)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_is_found_and_not_opened(whole, data):
    file = whole / data.draw(st.sampled_from(sorted(files_of(whole))))
    content = file.read_bytes()
    os.truncate(file, data.draw(st.integers(0, len(content) - 1)))
    try:
        problems = verify_store(whole).problems
        with pytest.raises(StoreError):
            open_store(whole)
    finally:
        file.write_bytes(content)
    assert problems


def test_a_cut_shard_names_its_clips(store):
    file, _ = place_of(store, "v000")
    os.truncate(file, 100)
    (problem,) = verify_store(store).problems
    assert "it is cut short" in problem
    assert "(its videos: v000, v001" in problem


def test_a_missing_shard_names_its_clips(store):
    place_of(store, "v000")[0].unlink()
    (problem,) = verify_store(store).problems
    assert "is missing" in problem
    assert "v000" in problem


def test_damage_outside_of_the_clips_is_told(store):
    file, offset = place_of(store, "v000")
    flip(file, 5 if file.read_bytes()[4:6] == b"\0\0" else offset - 40)
    (problem,) = verify_store(store).problems
    assert "outside the values of its clips" in problem


def test_a_page_checksum_that_does_not_agree_is_told(store):
    file, offset = place_of(store, "v000")
    data = file.read_bytes()
    begin = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset
    rows = pq.ParquetFile(file).metadata.row_group(0).num_rows
    page = data[offset : offset + rows * 16]
    import zlib

    crc = zlib.crc32(page)
    signed = crc - 2**32 if crc >= 2**31 else crc
    zigzag = (signed << 1) ^ (signed >> 31)
    low = zigzag & 0x7F | 0x80
    position = data.index(bytes([low]), begin)
    flip(file, position, 1)
    (problem,) = verify_store(store).problems
    assert "row group 0 of" in problem
    assert "cannot be read" in problem


def test_a_file_of_features_that_the_manifest_does_not_name_is_told(store):
    shutil.copy(store / "features-00000.parquet", store / "features-00009.parquet")
    (problem,) = verify_store(store).problems
    assert "also has features-00009.parquet: remove them" in problem


def test_a_store_that_cannot_be_opened_is_told_and_not_raised(tmp_path):
    found = verify_store(tmp_path / "nothing")
    assert (found.n_videos, found.n_bytes) == (0, 0)
    assert "a store is a folder" in found.problems[0]


def test_a_store_rewritten_with_compression_is_whole(store):
    groups = pq.ParquetFile(store / "features-00000.parquet").metadata
    for file in sorted(store.glob("features-*.parquet")):
        groups = pq.ParquetFile(file)
        tables = [groups.read_row_group(i) for i in range(groups.num_row_groups)]
        with pq.ParquetWriter(file, groups.schema_arrow, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)
    entries = []
    for entry in json.loads((store / "manifest.json").read_text())["shards"]:
        digest, size = file_digest(store / entry["file"])
        entries.append({**entry, "sha256": digest, "bytes": size})
    change_manifest(store, lambda value: value.update(shards=entries))
    assert verify_store(store).problems == ()


def test_row_groups_that_the_records_do_not_know_are_told_by_clip(store):
    rewrite_shards(store, row_group_size=7)
    problems = verify_store(store).problems
    assert any("each in one row group; 'v001' is said to begin" in problem for problem in problems)


def change_records(store: Path, **columns) -> None:
    """Changes single values of `videos.parquet` by id; the manifest agrees afterwards."""
    table = pq.read_table(store / "videos.parquet")
    rows = table.to_pylist()
    for row in rows:
        row.update({name: values[row["id"]] for name, values in columns.items() if row["id"] in values})
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), store / "videos.parquet")
    digest, size = file_digest(store / "videos.parquet")
    change_manifest(store, lambda value: value["videos"].update(sha256=digest, bytes=size))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"transcript": {"v002": [1, 7]}}, "action ids are 0 to 2, the transcript of 'v002' has 7"),
        ({"lengths": {"v002": [1, 60]}}, "those of 'v002' to 61 instead of 60"),
        ({"transcript": {"v002": None}}, "'v002' has lengths only"),
        ({"splits": {"v002": ["1:train", "1:test"]}}, "'v002' stands in several of split '1'"),
        ({"splits": {"v002": ["2:test"]}}, "has splits ['1'] in one, ['1', '2'] in the other"),
        ({"sha256": {"v002": "00"}}, "those of 'v002' do not"),
        ({"shard": {"v002": 8}}, "'v002' names 8"),
        ({"first_row": {"v001": 41}}, "'v001' is said to begin at row 41 of row group 0"),
        ({"row_group": {"v001": 9}}, "of row group 9"),
        ({"minimum": {"v002": -99.0}}, "statistics are of the features, those of 'v002' are not"),
        ({"mean": {"v002": 0.5}}, "statistics are of the features, those of 'v002' are not"),
        ({"last_active": {"v002": 3}}, "statistics are of the features, those of 'v002' are not"),
        ({"frames": {"v003": 2}}, "has frames 549 in one, 550 in the other"),
    ],
)
def test_records_that_contradict_the_features_or_themselves_are_named(store, columns, words):
    change_records(store, **columns)
    problems = verify_store(store).problems
    assert any(words in problem for problem in problems), problems


def test_a_manifest_that_contradicts_the_records_is_told(store):
    change_manifest(store, lambda value: value.update(n_videos=8, background=["SLI"]))
    first, second = verify_store(store).problems
    assert "background 'SLI' is not among the actions" in first
    assert "has videos 8 in one, 9 in the other" in second


def test_values_that_are_not_finite_are_found_even_where_checksums_agree(store):
    file, _ = place_of(store, "v008")
    features = CLIPS["v008"].copy()
    features[0, 0] = np.nan
    table = pq.read_table(file)
    column = table.column(0).to_pylist()
    at = column.index(CLIPS["v008"][0].tobytes())
    column[at] = features[0].tobytes()
    pq.write_table(pa.Table.from_arrays([pa.array(column, table.schema.field(0).type)], schema=table.schema), file)
    rewrite_shards(store)
    import hashlib

    change_records(store, sha256={"v008": hashlib.sha256(features.tobytes()).hexdigest()})
    assert any("features are finite, those of 'v008' are not" in problem for problem in verify_store(store).problems)

import hashlib
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import StoreError, open_store
from storage.format.shards import file_digest
from storage.verify import Verification, verify_store
from tests.helpers.refusals import ANY, matching
from tests.storage.helpers import change_manifest, clips_of, files_of, flip, rewrite_shards, write_store

CLIPS = clips_of([40, 30, 60, 1, 200, 20, 90, 100, 8])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store") / "s", CLIPS)


@pytest.fixture
def store(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "s"))


def place_of(store: Path, video: str) -> tuple[Path, int]:
    """Searches the shards for the bytes of a clip; returns the file and the offset."""
    data = CLIPS[video].tobytes()
    for file in sorted(store.glob("features-*.parquet")):
        offset = file.read_bytes().find(data)
        if offset >= 0:
            return file, offset
    raise AssertionError(video)


def test_an_intact_store_has_no_problems(whole):
    size = sum(file.stat().st_size for file in whole.glob("features-*.parquet"))
    assert verify_store(whole) == Verification(len(CLIPS), size, ())


@pytest.mark.parametrize("video", sorted(CLIPS))
def test_a_flipped_byte_of_features_damages_exactly_this_clip(store, video):
    file, offset = place_of(store, video)
    flip(file, offset + len(CLIPS[video].tobytes()) // 2)
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place) == ("damaged", f"{file.resolve()}: {video}")
    assert problem.hint


def test_two_damaged_clips_are_both_reported(store):
    for video in ("v000", "v007"):
        flip(*place_of(store, video))
    problems = verify_store(store).problems
    assert [problem.place.split()[-1] for problem in problems] == ["v000", "v007"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_flipped_byte_of_any_file_is_reported(whole, tmp_path_factory, data):
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
    assert all("\n" not in str(problem) for problem in problems)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_file_truncated_anywhere_is_reported_and_not_opened(whole, data):
    file = whole / data.draw(st.sampled_from(sorted(files_of(whole))))
    content = file.read_bytes()
    os.truncate(file, data.draw(st.integers(0, len(content) - 2)))
    try:
        problems = verify_store(whole).problems
        with pytest.raises(StoreError):
            open_store(whole)
    finally:
        file.write_bytes(content)
    assert problems


def test_a_truncated_shard_is_reported_with_its_clips(store):
    file, _ = place_of(store, "v000")
    os.truncate(file, 100)
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place, problem.value) == ("damaged", str(file.resolve()), 100)
    assert "v000, v001" in problem.hint


def test_a_missing_shard_is_reported_with_its_clips(store):
    file, _ = place_of(store, "v000")
    file.unlink()
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place) == ("missing", str(file.resolve()))
    assert "v000" in problem.hint


def test_damage_outside_of_the_clips_is_reported(store):
    file, offset = place_of(store, "v000")
    flip(file, 5 if file.read_bytes()[4:6] == b"\0\0" else offset - 40)
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place) == ("damaged", str(file.resolve()))
    assert problem.value == hashlib.sha256(file.read_bytes()).hexdigest()
    assert "outside" in problem.message


def test_a_wrong_page_checksum_is_reported(store):
    file, offset = place_of(store, "v000")
    data = file.read_bytes()
    begin = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset
    rows = pq.ParquetFile(file).metadata.row_group(0).num_rows
    page = data[offset : offset + rows * 16]
    crc = zlib.crc32(page)
    signed = crc - 2**32 if crc >= 2**31 else crc
    zigzag = (signed << 1) ^ (signed >> 31)
    low = zigzag & 0x7F | 0x80
    position = data.index(bytes([low]), begin)
    flip(file, position, 1)
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place) == ("unreadable", f"{file.resolve()}, row group 0")


def test_a_file_of_features_that_is_not_in_the_manifest_is_reported(store):
    shutil.copy(store / "features-00000.parquet", store / "features-00009.parquet")
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place) == ("unknown", str(store.resolve()))
    assert problem.value == ["features-00009.parquet"]


def test_a_store_that_cannot_be_opened_is_reported_and_not_raised(tmp_path):
    result = verify_store(tmp_path / "nothing")
    assert (result.n_videos, result.n_bytes) == (0, 0)
    assert matching(result.problems, "missing", str(tmp_path.resolve() / "nothing"))


@pytest.mark.parametrize("row_group_size", [None, 7, 100])
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_store_that_another_tool_rewrote_is_intact(store, compression, row_group_size):
    rewrite_shards(store, compression=compression, row_group_size=row_group_size)
    assert verify_store(store).problems == ()
    for video, features in CLIPS.items():
        assert np.array_equal(open_store(store).features(video), features)


def test_positions_in_the_row_groups_of_another_tool_are_right(store):
    rewrite_shards(store, row_group_size=7)
    start, places = 0, {}
    for video in ("v000", "v001", "v002", "v003", "v004", "v005"):
        places[video] = start
        start += len(CLIPS[video])
    held = {record.id: record.shard for record in open_store(store).catalogue.records()}
    places = {video: row for video, row in places.items() if held[video] == 0}
    change_records(
        store,
        row_group={video: row // 7 for video, row in places.items()},
        first_row={video: row % 7 for video, row in places.items()},
    )
    assert verify_store(store).problems == ()


def test_damage_in_a_store_that_another_tool_rewrote_is_reported_once(store):
    rewrite_shards(store, compression="none", use_dictionary=False, row_group_size=7)
    file = store / "features-00000.parquet"
    flip(file, file.read_bytes().index(CLIPS["v001"][20:22].tobytes()))
    (problem,) = verify_store(store).problems
    assert (problem.rule, problem.place) == ("damaged", f"{file.resolve()}: v001")


def change_records(store: Path, **columns) -> None:
    """Changes single values of `videos.parquet` by id and updates the manifest."""
    table = pq.read_table(store / "videos.parquet")
    rows = table.to_pylist()
    for row in rows:
        row.update({name: values[row["id"]] for name, values in columns.items() if row["id"] in values})
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), store / "videos.parquet")
    digest, size = file_digest(store / "videos.parquet")
    change_manifest(store, lambda value: value["videos"].update(sha256=digest, bytes=size))


@pytest.mark.parametrize(
    ("columns", "rule", "place", "value"),
    [
        ({"transcript": {"v002": [1, 7]}}, "range", "videos.parquet: v002", [7]),
        ({"lengths": {"v002": [1, 60]}}, "mismatch", "videos.parquet: v002", 61),
        ({"transcript": {"v002": None}}, "missing", "videos.parquet: v002", None),
        ({"splits": {"v002": ["1:train", "1:test"]}}, "conflict", "videos.parquet: v002", "1"),
        ({"splits": {"v002": ["2:test"]}}, "mismatch", "manifest.json: splits", ["1"]),
        ({"sha256": {"v002": "00"}}, "damaged", ": v002", hashlib.sha256(CLIPS["v002"]).hexdigest()),
        ({"shard": {"v002": 8}}, "range", "videos.parquet: v002", 8),
        ({"first_row": {"v001": 41}}, "mismatch", "features-00000.parquet: v001", [0, 41]),
        ({"row_group": {"v001": 9}}, "mismatch", "features-00000.parquet: v001", [9, 40]),
        ({"minimum": {"v002": -99.0}}, "damaged", "features-00000.parquet: v002", ANY),
        ({"mean": {"v002": 0.5}}, "damaged", "features-00000.parquet: v002", ANY),
        ({"last_active": {"v002": 3}}, "damaged", "features-00000.parquet: v002", ANY),
        ({"frames": {"v003": 2}}, "mismatch", "manifest.json: n_frames", 549),
    ],
)
def test_records_that_contradict_the_features_or_themselves_are_reported(store, columns, rule, place, value):
    change_records(store, **columns)
    problems = verify_store(store).problems
    assert matching(problems, rule, place, value), problems


@pytest.mark.parametrize("column", ["minimum", "mean"])
def test_recorded_statistics_are_compared_with_the_features(store, column):
    change_records(store, **{column: {"v002": -99.0}})
    (problem,) = verify_store(store).problems
    assert getattr(problem.value, column) == -99.0
    assert "statistics" in problem.message


def test_a_manifest_that_contradicts_the_records_is_reported(store):
    change_manifest(store, lambda value: value.update(n_videos=8, background=["SLI"]))
    first, second = verify_store(store).problems
    path = store.resolve() / "manifest.json"
    assert (first.rule, first.place, first.value) == ("unknown", f"{path}: background", "SLI")
    assert (second.rule, second.place, second.value) == ("mismatch", f"{path}: n_videos", 8)
    assert "9" in second.expected


def test_nan_is_reported_even_if_checksums_agree(store):
    file, _ = place_of(store, "v008")
    features = CLIPS["v008"].copy()
    features[0, 0] = np.nan
    table = pq.read_table(file)
    column = table.column(0).to_pylist()
    at = column.index(CLIPS["v008"][0].tobytes())
    column[at] = features[0].tobytes()
    pq.write_table(pa.Table.from_arrays([pa.array(column, table.schema.field(0).type)], schema=table.schema), file)
    rewrite_shards(store)
    change_records(store, sha256={"v008": hashlib.sha256(features.tobytes()).hexdigest()})
    problems = matching(verify_store(store).problems, "damaged", ": v008")
    assert any("NaN" in problem.message for problem in problems)

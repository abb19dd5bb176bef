import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Store, StoreError, open_store
from storage.shards import ShardReader
from tests.storage.helpers import SMALL, change_manifest, clips_of, rewrite_shards, write_store

ROOT = Path(__file__).parents[2]
LENGTHS = [40, 1, 60, 200, 20, 90, 100, 8, 33, 150, 110]
CLIPS = clips_of(LENGTHS)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store") / "s", CLIPS)


@pytest.fixture
def copied(path, tmp_path):
    return Path(shutil.copytree(path, tmp_path / "s"))


def problems_of(path) -> tuple[str, ...]:
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert all("\n" not in problem for problem in caught.value.problems)
    return caught.value.problems


def same(store: Store) -> bool:
    return all(np.array_equal(store.features(video), features) for video, features in CLIPS.items())


def test_features_are_read_only_mapped_aligned_arrays_of_the_stores_dtype(path):
    store = open_store(path)
    for video, expected in CLIPS.items():
        features = store.features(video)
        assert np.array_equal(features, expected)
        assert features.dtype == np.float32
        assert (features.flags.writeable, features.flags.aligned, features.flags.c_contiguous) == (False, True, True)
        assert not features.flags.owndata
        assert store.is_mapped(video)
        with pytest.raises(ValueError, match="read-only"):
            features[0, 0] = 1
    assert len(store.manifest.shards) > 1


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CLIPS)), st.data())
def test_a_range_of_frames_is_that_part_of_the_clip(path, video, data):
    expected = CLIPS[video]
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert np.array_equal(open_store(path).features(video, start, stop), expected[start:stop])
    assert np.array_equal(open_store(path).features(video, start), expected[start:])


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (0, 41), (6, 5), (41, None)])
def test_frames_that_a_clip_has_not_are_refused(path, start, stop):
    with pytest.raises(StoreError, match=f"frames of 'v000' are 0 to 40, {start} to {stop or 40} are asked for"):
        open_store(path).features("v000", start, stop)


def test_an_unknown_video_is_told_with_the_nearest_names(path):
    store = open_store(path)
    for ask in (store.features, store.record, store.is_mapped):
        with pytest.raises(
            StoreError, match=r"no video 'v00' \(did you mean 'v010', 'v009', 'v008'\?\): name one of its 11"
        ):
            ask("v00")
    assert "v00" not in store
    assert "v000" in store


def test_records_and_splits_are_those_written(path):
    store = open_store(path)
    assert store.ids == tuple(sorted(CLIPS))
    assert len(store) == len(CLIPS)
    assert store.manifest.splits == ("1",)
    assert store.split("1", "test") == ("v002", "v005", "v008")
    assert set(store.split("1", "train")) == set(CLIPS) - set(store.split("1", "test"))
    record = store.record("v002")
    assert (record.frames, record.transcript, record.lengths) == (60, (1, 2), (1, 59))
    assert (record.splits, record.group, record.activity) == (("1:test",), "g0", None)
    assert record.statistics.minimum == CLIPS["v002"].min()
    assert store.catalogue.records() == [store.record(video) for video in store.ids]


@pytest.mark.parametrize("asked", [("2", "train"), ("1", "val"), ("1:train", "")])
def test_an_unknown_split_names_the_known_ones(path, asked):
    with pytest.raises(StoreError, match=r"the store has the split parts 1:test, 1:train, not .*: name one"):
        open_store(path).split(*asked)


def test_a_store_without_splits_says_so(tmp_path):
    from storage import StoreWriter

    with StoreWriter(tmp_path / "s", dim=1, dtype="float16", vocabulary=["a"]) as new:
        new.add("x", np.ones((1, 1)), transcript=None)
    with pytest.raises(StoreError, match="the store has the split parts none, not 1:train"):
        open_store(tmp_path / "s").split("1", "train")


@pytest.mark.parametrize(
    ("options", "mapped"),
    [
        ({"compression": "zstd"}, False),
        ({"compression": "snappy", "use_dictionary": True}, False),
        ({"compression": "none", "use_dictionary": False, "row_group_size": 37}, True),
        ({"compression": "lz4", "row_group_size": 50}, False),
        ({"compression": "none", "use_dictionary": False, "data_page_size": 200, "write_batch_size": 5}, False),
        ({"compression": "none", "use_dictionary": False, "data_page_version": "2.0"}, False),
        ({"compression": "gzip", "row_group_size": 1}, False),
    ],
    ids=["zstd", "dictionary", "other row groups", "lz4 and other row groups", "small pages", "pages 2.0", "one row"],
)
def test_shards_rewritten_by_another_tool_are_read_right(copied, options, mapped):
    rewrite_shards(copied, **options)
    store = open_store(copied)
    assert same(store)
    features = store.features("v003", 10, 150)
    assert np.array_equal(features, CLIPS["v003"][10:150])
    assert (features.flags.writeable, features.flags.aligned) == (False, True)
    if not mapped:
        assert not any(store.is_mapped(video) for video in store.ids)


def test_mapped_values_that_are_not_aligned_are_copied(tmp_path):
    clips = clips_of([10, 7, 30], dim=3, dtype="float64")
    path = write_store(tmp_path / "s", clips)
    rewrite_shards(path, compression="none", use_dictionary=False, row_group_size=1, write_statistics=False)
    store = open_store(path)
    reader = store.shard(0)
    offsets = [reader.mapped_offset(group) for group in range(10)]
    assert any(offset is not None and offset % 8 for offset in offsets)
    for video, expected in clips.items():
        for frame in range(len(expected)):
            features = store.features(video, frame, frame + 1)
            assert features.flags.aligned
            assert not features.flags.writeable
            assert np.array_equal(features, expected[frame : frame + 1])


def test_a_shard_written_with_a_nullable_column_is_read_right(copied):
    import pyarrow as pa

    for file in sorted(copied.glob("features-*.parquet")):
        table = pq.read_table(file)
        field = pa.field("frame", table.schema.field(0).type, nullable=True)
        pq.write_table(table.cast(pa.schema([field])), file)
    rewrite_shards(copied, compression="none")
    assert same(open_store(copied))


def test_opening_reads_no_features(path, monkeypatch):
    def refuse(*args):
        raise AssertionError("a shard was looked at")

    monkeypatch.setattr(ShardReader, "__init__", refuse)
    store = open_store(path)
    assert store.record("v000").frames == 40
    with pytest.raises(AssertionError):
        store.features("v000")


def test_a_store_pickles_as_its_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    store = open_store("s")
    assert store.path == path.resolve()
    data = pickle.dumps(store)
    assert len(data) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert again.path == store.path
    assert same(again)


def test_a_store_that_was_replaced_is_not_unpickled_as_another(copied):
    data = pickle.dumps(open_store(copied))
    write_store(copied, clips_of([3]), replace=True)
    with pytest.raises(StoreError, match="was replaced in between: open it anew"):
        pickle.loads(data)


def test_a_store_error_pickles_with_its_problems():
    error = pickle.loads(pickle.dumps(StoreError(["a", "b"])))
    assert error.problems == ("a", "b")
    assert str(error) == "a\nb"


def test_threads_read_the_same_store_at_once(copied):
    rewrite_shards(copied, compression="zstd", row_group_size=70)
    for store in (open_store(copied), open_store(copied)):
        barrier = threading.Barrier(8)

        def read(index, store=store, barrier=barrier):
            barrier.wait()
            videos = sorted(CLIPS)[index % 3 :] * 5
            return all(np.array_equal(store.features(video), CLIPS[video]) for video in videos)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(8)))


def answer(store, pipe):
    pipe.send(same(store))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("method", "rewritten"),
    [("fork", False), ("fork", True), ("spawn", True)],
    ids=["fork, mapped", "fork, decoded", "spawn, decoded"],
)
def test_a_store_is_read_in_another_process(copied, method, rewritten):
    if rewritten:
        rewrite_shards(copied, compression="zstd")
    store = open_store(copied)
    assert same(store)
    context = multiprocessing.get_context(method)
    mine, theirs = context.Pipe()
    process = context.Process(target=answer, args=(store, theirs))
    process.start()
    assert mine.poll(60)
    assert mine.recv() is True
    process.join(60)
    assert process.exitcode == 0


def test_importing_the_store_starts_no_thread_and_imports_neither_torch_nor_the_services():
    code = (
        "import sys, threading, storage, storage.cli\n"
        "print([m for m in ('torch', 'ray', 'mlflow', 'optuna', 'mucon', 'pandas') if m in sys.modules], "
        "threading.active_count())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert found.stdout == "[] 1\n", found.stderr


def test_a_missing_folder_is_told_with_the_nearest_name(path):
    (problem,) = problems_of(path.parent / "ss")
    assert f"a store is a folder, {path.parent.resolve() / 'ss'} is none (did you mean 's'?)" in problem
    (problem,) = problems_of(path.parent / "x" / "y")
    assert "is none, nor is" in problem
    (problem,) = problems_of(path / "manifest.json")
    assert "a store is a folder" in problem


def test_a_folder_without_a_manifest_is_no_store(tmp_path):
    (problem,) = problems_of(tmp_path)
    assert f"a store is a folder with manifest.json, {tmp_path.resolve()} has none" in problem


def test_another_format_version_is_refused_in_one_line(copied):
    change_manifest(copied, lambda value: value.update(format_version=2))
    (problem,) = problems_of(copied)
    assert "the store's format version is 2, this program knows 1" in problem


def test_all_shards_that_are_cut_short_longer_or_missing_are_told_together(copied):
    files = sorted(copied.glob("features-*.parquet"))
    assert len(files) >= 3
    sizes = [file.stat().st_size for file in files]
    os.truncate(files[0], sizes[0] - 1)
    files[1].unlink()
    with files[2].open("ab") as file:
        file.write(b"x")
    first, second, third = problems_of(copied)
    assert (
        f"features-00000.parquet has {sizes[0]} bytes by the manifest, {files[0].resolve()} has {sizes[0] - 1}" in first
    )
    assert "cut short" in first
    assert "features-00001.parquet" in second
    assert "is missing" in second
    assert "longer than it was written" in third


def test_an_empty_shard_is_told(copied):
    (copied / "features-00000.parquet").write_bytes(b"")
    (problem,) = problems_of(copied)
    assert "has 0: it is cut short" in problem


def test_damaged_records_are_refused(copied):
    file = copied / "videos.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (problem,) = problems_of(copied)
    assert f"the records agree with their checksum, {file.resolve()} does not" in problem
    file.unlink()
    (problem,) = problems_of(copied)
    assert "is missing" in problem


def change_records(store, change):
    from storage.shards import file_digest

    table = change(pq.read_table(store / "videos.parquet"))
    pq.write_table(table, store / "videos.parquet")
    digest, size = file_digest(store / "videos.parquet")
    change_manifest(store, lambda value: value["videos"].update(sha256=digest, bytes=size))


def test_records_without_a_column_or_in_another_order_are_refused(copied):
    change_records(copied, lambda table: table.drop_columns(["group", "shard"]))
    (problem,) = problems_of(copied)
    assert "lacks group, shard and has none of another type" in problem


def test_records_that_are_not_sorted_are_refused(copied):
    change_records(copied, lambda table: table.take([1, 0, *range(2, len(table))]))
    (problem,) = problems_of(copied)
    assert "the ids of videos.parquet are distinct and sorted" in problem


def test_columns_of_later_programs_are_passed_over(copied):
    import pyarrow as pa

    change_records(copied, lambda table: table.append_column("colour", pa.array(["blue"] * len(table))))
    store = open_store(copied)
    assert store.record("v000").frames == 40
    assert same(store)


def test_records_that_name_another_shard_are_told_when_they_are_read(copied):
    import pyarrow as pa

    def elsewhere(table):
        index = table.schema.get_field_index("shard")
        return table.set_column(index, table.schema.field(index), pa.array([99] * len(table), pa.int32()))

    change_records(copied, elsewhere)
    with pytest.raises(StoreError, match="a record names shard 99"):
        open_store(copied).features("v000")


def test_a_shard_of_another_width_is_told(copied):
    change_manifest(copied, lambda value: value.update(dim=5))
    with pytest.raises(StoreError, match=r"a shard has one column of 20 bytes a frame, .* the first .* of 16"):
        open_store(copied).features("v000")


def test_clips_of_any_limits_are_found(tmp_path):
    store = open_store(
        write_store(tmp_path / "s", CLIPS, limits=SMALL.__class__(row_group_bytes=1, shard_row_groups=1))
    )
    assert len(store.manifest.shards) == len(CLIPS)
    assert same(store)

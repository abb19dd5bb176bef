import hashlib
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
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Store, StoreError, open_store
from storage.errors import Problem
from storage.format.shards import ShardReader
from tests.helpers.refusals import matching, refused
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


def problem_of(path, rule: str, place: object, value: object = None) -> Problem:
    """The only problem of opening a store."""
    with refused(rule, str(place), value, n=1, error=StoreError) as refusal:
        open_store(path)
    assert "\n" not in str(refusal.problems[0])
    return refusal.problems[0]


def same(store: Store) -> bool:
    return all(np.array_equal(store.features(video), features) for video, features in CLIPS.items())


def test_features_are_read_only_mapped_aligned_arrays_of_the_dtype_of_the_store(path):
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
def test_frames_outside_of_a_clip_are_refused(path, start, stop):
    with refused("range", "v000", (start, stop or 40), n=1, error=StoreError) as refusal:
        open_store(path).features("v000", start, stop)
    assert "40" in refusal.problems[0].expected


def test_an_unknown_video_is_refused_with_the_nearest_names(path):
    store = open_store(path)
    for method in (store.features, store.record, store.is_mapped):
        with refused("unknown", str(store.path), "v00", n=1, error=StoreError) as refusal:
            method("v00")
        assert "'v010', 'v009', 'v008'" in refusal.problems[0].message
        assert "11" in refusal.problems[0].hint
    assert "v00" not in store
    assert "v000" in store


def test_records_and_splits_are_read_as_written(path):
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


@pytest.mark.parametrize("part", [("2", "train"), ("1", "val"), ("1:train", "")])
def test_an_unknown_split_is_refused_with_the_existing_ones(path, part):
    with refused("unknown", str(path.resolve()), ":".join(part), n=1, error=StoreError) as refusal:
        open_store(path).split(*part)
    assert "1:test, 1:train" in refusal.problems[0].hint


def test_a_store_without_splits_refuses_every_split(tmp_path):
    from storage import StoreWriter

    with StoreWriter(tmp_path / "s", dim=1, dtype="float16", vocabulary=["a"]) as new:
        new.add("x", np.ones((1, 1)), transcript=None)
    with refused("unknown", str(tmp_path / "s"), "1:train", n=1, error=StoreError) as refusal:
        open_store(tmp_path / "s").split("1", "train")
    assert "no splits" in refusal.problems[0].hint


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
def test_shards_rewritten_by_another_tool_are_read_correctly(copied, options, mapped):
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


def test_a_shard_written_with_a_nullable_column_is_read_correctly(copied):
    for file in sorted(copied.glob("features-*.parquet")):
        table = pq.read_table(file)
        field = pa.field("frame", table.schema.field(0).type, nullable=True)
        pq.write_table(table.cast(pa.schema([field])), file)
    rewrite_shards(copied, compression="none")
    assert same(open_store(copied))


def test_opening_reads_no_features(path, monkeypatch):
    def refuse(*args):
        raise AssertionError("opened a shard")

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
    with refused("state", str(copied), open_store(copied).manifest.sha256, n=1, error=StoreError):
        pickle.loads(data)


def test_a_store_error_pickles_with_its_problems():
    problems = [
        Problem(rule="range", place="dim", value=0, expected="at least 1"),
        Problem(rule="state", place="b", message="c"),
    ]
    error = pickle.loads(pickle.dumps(StoreError(problems)))
    assert error.problems == tuple(problems)
    assert str(error).splitlines() == [str(problem) for problem in problems]


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


def send_same(store, pipe):
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
    process = context.Process(target=send_same, args=(store, theirs))
    process.start()
    assert mine.poll(60)
    assert mine.recv() is True
    process.join(60)
    assert process.exitcode == 0


def test_importing_the_package_starts_no_thread_and_imports_neither_torch_nor_the_services():
    code = (
        "import sys, threading, storage, storage.cli\n"
        "print([m for m in ('torch', 'ray', 'mlflow', 'optuna', 'mucon', 'pandas') if m in sys.modules], "
        "threading.active_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout == "[] 1\n", done.stderr


def test_a_missing_folder_is_reported_with_the_nearest_name(path):
    parent = path.parent.resolve()
    assert "'s'" in problem_of(path.parent / "ss", "missing", parent / "ss").message
    assert f"{parent / 'x'} " in problem_of(path.parent / "x" / "y", "missing", parent / "x" / "y").message
    assert "folder" in problem_of(path / "manifest.json", "missing", parent / "s" / "manifest.json").message


def test_a_folder_without_a_manifest_is_not_a_store(tmp_path):
    assert "manifest.json" in problem_of(tmp_path, "missing", tmp_path.resolve()).message


def test_another_format_version_is_one_problem(copied):
    change_manifest(copied, lambda value: value.update(format_version=2))
    problem_of(copied, "version", copied / "manifest.json", 2)


def test_all_shards_that_are_truncated_longer_or_missing_are_reported_together(copied):
    files = sorted(copied.glob("features-*.parquet"))
    assert len(files) >= 3
    sizes = [file.stat().st_size for file in files]
    os.truncate(files[0], sizes[0] - 1)
    files[1].unlink()
    with files[2].open("ab") as file:
        file.write(b"x")
    with refused("damaged", str(files[0].resolve()), sizes[0] - 1, n=3, error=StoreError) as refusal:
        open_store(copied)
    assert refusal.rules == ["damaged", "missing", "damaged"]
    assert refusal.places == [str(file.resolve()) for file in files[:3]]
    assert refusal.values == [sizes[0] - 1, None, sizes[2] + 1]
    assert str(sizes[0]) in refusal.problems[0].message
    assert "truncated" in refusal.problems[0].message
    assert "longer" in refusal.problems[2].message


def test_an_empty_shard_is_reported(copied):
    (copied / "features-00000.parquet").write_bytes(b"")
    problem_of(copied, "damaged", copied / "features-00000.parquet", 0)


def test_damaged_records_are_refused(copied):
    file = copied / "videos.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    problem_of(copied, "damaged", file.resolve(), hashlib.sha256(data).hexdigest())
    file.unlink()
    problem_of(copied, "missing", file.resolve())


def change_records(store, change):
    from storage.format.shards import file_digest

    table = change(pq.read_table(store / "videos.parquet"))
    pq.write_table(table, store / "videos.parquet")
    digest, size = file_digest(store / "videos.parquet")
    change_manifest(store, lambda value: value["videos"].update(sha256=digest, bytes=size))


def with_column(table, name, values, dtype):
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, dtype))


def test_missing_columns_columns_of_another_type_and_null_values_are_reported_together(copied):
    def change(table):
        table = with_column(table, "frames", [None, *[1] * (len(table) - 1)], pa.int64())
        return with_column(table.drop_columns(["group", "shard"]), "mean", [1] * len(table), pa.int32())

    change_records(copied, change)
    with refused("missing", "videos.parquet: group", n=4, error=StoreError) as refusal:
        open_store(copied)
    assert matching(refusal.problems, "missing", "videos.parquet: shard")
    assert matching(refusal.problems, "type", "videos.parquet: mean", "int32")
    assert matching(refusal.problems, "damaged", "videos.parquet: frames", 1)


def test_records_that_are_not_sorted_are_refused(copied):
    change_records(copied, lambda table: table.take([1, 0, *range(2, len(table))]))
    problem_of(copied, "damaged", copied / "videos.parquet", "v000")


def test_unknown_columns_are_ignored(copied):
    change_records(copied, lambda table: table.append_column("colour", pa.array(["blue"] * len(table))))
    store = open_store(copied)
    assert store.record("v000").frames == 40
    assert same(store)


def test_records_that_refer_to_an_unknown_shard_are_reported_when_their_features_are_read(copied):
    change_records(copied, lambda table: with_column(table, "shard", [99] * len(table), pa.int32()))
    with refused("mismatch", str(copied), 99, n=1, error=StoreError):
        open_store(copied).features("v000")


def test_a_shard_of_another_width_is_reported(copied):
    change_manifest(copied, lambda value: value.update(dim=5))
    with refused("shape", "features-00000.parquet", [1, "FIXED_LEN_BYTE_ARRAY", 16], n=1, error=StoreError) as refusal:
        open_store(copied).features("v000")
    assert "20" in refusal.problems[0].message


def test_clips_written_with_any_limits_are_read(tmp_path):
    store = open_store(
        write_store(tmp_path / "s", CLIPS, limits=SMALL.__class__(row_group_bytes=1, shard_row_groups=1))
    )
    assert len(store.manifest.shards) == len(CLIPS)
    assert same(store)

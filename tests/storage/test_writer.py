import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import StoreError, StoreWriter, open_store
from storage.arrays import Conversion
from storage.constants import MAX_CLIP_BYTES, Limits
from storage.verify import verify_store
from tests.storage.helpers import SMALL, VOCABULARY, clips_of, files_of, write_store


def writer(path, **options):
    return StoreWriter(path, **{"dim": 4, "dtype": "float32", "vocabulary": VOCABULARY, **options})


def problems_of(path, features, options=None, **clip):
    with (
        pytest.raises(StoreError) as caught,
        writer(path, **(options or {})) as new,
    ):
        new.add(**{"id": "v1", "features": features, "transcript": (0,), **clip})
    assert not path.exists()
    assert list(path.parent.iterdir()) == []
    return caught.value.problems


@settings(max_examples=25, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["float16", "float32", "float64"]), dim=st.integers(1, 5))
def test_what_was_written_is_read(tmp_path_factory, data, dtype, dim):
    path = tmp_path_factory.mktemp("store") / "s"
    clips = {}
    notes = {}
    name = st.text(st.characters(categories=("L", "N", "Pd")), min_size=1, max_size=8)
    for video in data.draw(st.lists(name, min_size=1, max_size=8, unique=True)):
        lengths = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
        seed = data.draw(st.integers(0, 2**32 - 1))
        clips[video] = np.random.default_rng(seed).normal(size=(sum(lengths), dim)).astype(dtype)
        transcript = data.draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
        notes[video] = {
            "transcript": data.draw(st.none() | st.just(tuple(transcript))),
            "splits": data.draw(st.sampled_from([(), ("1:train",), ("1:test", "2:train"), ("10:val",)])),
            "group": data.draw(st.none() | st.just("s1")),
            "activity": data.draw(st.none() | st.just("tea")),
        }
        known = notes[video]["transcript"] is not None and data.draw(st.booleans())
        notes[video]["lengths"] = tuple(lengths) if known else None
    with writer(path, dim=dim, dtype=dtype, fps=25, metadata={"a": [1]}, limits=SMALL) as new:
        for video, features in clips.items():
            new.add(video, features, **notes[video])
    store = open_store(path)
    assert store.ids == tuple(sorted(clips))
    assert (store.manifest.dim, store.manifest.dtype, store.manifest.fps) == (dim, dtype, 25.0)
    assert store.manifest.metadata == {"a": [1]}
    for video, features in clips.items():
        record = store.record(video)
        assert np.array_equal(store.features(video), features)
        assert store.is_mapped(video)
        assert record.frames == len(features)
        assert {name: getattr(record, name) for name in notes[video]} == notes[video]
    assert verify_store(path).problems == ()


def test_the_same_clips_make_the_same_bytes(tmp_path):
    clips = clips_of([30, 50, 200, 3])
    first = files_of(write_store(tmp_path / "a", clips))
    second = files_of(write_store(tmp_path / "b", clips))
    assert first == second
    assert set(first) == {"manifest.json", "videos.parquet", "features-00000.parquet", "features-00001.parquet"}


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=30),
    row_group=st.integers(16, 2000),
    groups=st.integers(1, 4),
    shard=st.integers(100, 6000),
)
def test_row_groups_and_shards_stay_within_their_limits(tmp_path_factory, lengths, row_group, groups, shard):
    path = tmp_path_factory.mktemp("store") / "s"
    limits = Limits(row_group_bytes=row_group, shard_row_groups=groups, shard_bytes=shard)
    write_store(path, clips_of(lengths), limits=limits)
    store = open_store(path)
    for index, entry in enumerate(store.manifest.shards):
        records = [store.record(video) for video in store.ids if store.record(video).shard == index]
        sizes = {}
        for record in records:
            sizes.setdefault(record.row_group, []).append(16 * record.frames)
        assert sorted(sizes) == list(range(entry.row_groups))
        assert entry.row_groups <= groups
        assert all(sum(group) <= row_group or len(group) == 1 for group in sizes.values())
        assert sum(map(sum, sizes.values())) <= shard or len(sizes) == 1
        metadata = pq.ParquetFile(path / entry.file).metadata
        assert [metadata.row_group(i).num_rows * 16 for i in sizes] == [sum(group) for group in sizes.values()]


def test_the_callers_array_may_change_after_it_was_added(tmp_path):
    features = np.ones((5, 4), np.float32)
    with writer(tmp_path / "s") as new:
        new.add("a", features, transcript=(0,))
        features[:] = 7
        new.add("b", features, transcript=(0,))
    store = open_store(tmp_path / "s")
    assert store.features("a").max() == 1
    assert store.features("b").min() == 7


def test_adding_changes_no_argument(tmp_path):
    features = np.arange(20, dtype=">f8").reshape(5, 4)
    before = features.copy()
    features.flags.writeable = False
    with writer(tmp_path / "s", dtype="float16") as new:
        new.add("a", features, transcript=[0], lengths=[5])
    assert np.array_equal(features, before)
    assert np.array_equal(open_store(tmp_path / "s").features("a"), before)


def test_the_largest_relative_error_of_all_clips_is_kept(tmp_path):
    with writer(tmp_path / "s", dtype="float16") as new:
        new.add("a", np.full((2, 4), 1 + 2**-12), transcript=(0,))
        new.add("b", np.ones((2, 4)), transcript=(0,))
    assert new.conversion == Conversion(relative=2**-12 / (1 + 2**-12), absolute_below=0.0)


def test_features_that_are_no_clip_are_refused_by_name(tmp_path):
    path = tmp_path / "s"
    good = np.ones((5, 4), np.float32)
    for features, words in (
        (np.ones((5, 3)), "features are [T 4], those of 'v1' have shape [5 3]: correct"),
        (np.ones((4, 9)), "have shape [4 9]; they look transposed"),
        (np.ones(4), "have shape [4]"),
        (np.ones((1, 5, 4)), "have shape [1, 5, 4]"),
        (np.ones((0, 4)), "a clip has at least one frame, 'v1' has none"),
        (good.astype(complex), "'v1' has dtype complex128"),
        (good.astype(object), "'v1' has dtype object"),
        (good * np.nan, "'v1' has NaN or infinite values in 5 of 5 rows (rows 0-4)"),
    ):
        (problem,) = problems_of(path, features)
        assert words in problem


def test_features_that_float16_cannot_hold_are_refused_by_row(tmp_path):
    features = np.ones((5, 4))
    features[3] = 1e5
    (problem,) = problems_of(tmp_path / "s", features, {"dtype": "float16"})
    assert "float16 holds values up to 65504, 'v1' has 100000 in 1 rows (row 3)" in problem


def test_a_clip_larger_than_a_parquet_page_is_refused_before_it_is_converted(tmp_path):
    frames = MAX_CLIP_BYTES // 16 + 1
    features = np.broadcast_to(np.zeros(4, np.float32), (frames, 4))
    (problem,) = problems_of(tmp_path / "s", features)
    assert f"a clip has at most {MAX_CLIP_BYTES} bytes of features, 'v1' would have {16 * frames}" in problem
    assert "choose a narrower dtype" in problem


@pytest.mark.parametrize(
    ("clip", "words"),
    [
        ({"transcript": (3,)}, "action ids are 0 to 2, the transcript of 'v1' has 3"),
        ({"transcript": (0, -1)}, "has -1"),
        ({"transcript": ()}, "a transcript has at least one segment"),
        ({"transcript": (0, 1, 0, 1, 0, 1)}, "'v1' has 6 segments in 5 frames"),
        ({"transcript": (0, 1), "lengths": (2, 2)}, "those of 'v1' to 4 instead of 5"),
        ({"transcript": (0, 1), "lengths": (5,)}, "'v1' has 2 actions and 1 lengths"),
        ({"transcript": (0, 1), "lengths": (5, 0)}, "'v1' has shorter ones (segment 1)"),
        ({"transcript": None, "lengths": (5,)}, "'v1' has lengths only"),
        ({"id": ""}, "this is ''"),
        ({"id": " v1"}, "without blanks at its ends"),
        ({"id": "a\nb"}, "printable"),
        ({"splits": ("train",)}, "NAME:PART such as 1:train, 'v1' has 'train'"),
        ({"splits": ("1:train", "1:test")}, "'v1' stands in several of split '1'"),
    ],
)
def test_annotation_that_contradicts_itself_is_refused(tmp_path, clip, words):
    problems = problems_of(tmp_path / "s", np.ones((5, 4)), **clip)
    assert any(words in problem for problem in problems)
    assert all("\n" not in problem for problem in problems)


def test_a_length_that_is_no_whole_number_is_refused(tmp_path):
    with pytest.raises(TypeError), writer(tmp_path / "s") as new:
        new.add("v1", np.ones((5, 4)), transcript=(0, 1), lengths=(2.5, 2.5))
    assert list(tmp_path.iterdir()) == []


def test_the_same_action_may_stand_twice_in_a_row(tmp_path):
    with writer(tmp_path / "s") as new:
        new.add("a", np.ones((5, 4)), transcript=(1, 1), lengths=(2, 3))
    assert open_store(tmp_path / "s").record("a").transcript == (1, 1)


def test_an_id_is_added_once_and_a_refused_clip_leaves_the_writer_usable(tmp_path):
    with writer(tmp_path / "s") as new:
        new.add("a", np.ones((5, 4)), transcript=(1,))
        with pytest.raises(StoreError, match="'a' was added already"):
            new.add("a", np.zeros((5, 4)), transcript=(1,))
        new.add("b", np.zeros((5, 4)), transcript=(1,))
    assert open_store(tmp_path / "s").ids == ("a", "b")
    assert verify_store(tmp_path / "s").problems == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"dtype": "int8"}, "not 'int8'"),
        ({"vocabulary": ()}, "at least one action"),
        ({"vocabulary": ("a", "a")}, "'a' stands more than once"),
        ({"vocabulary": ("a", "")}, "that of id 1 is ''"),
        ({"background": ("SLI",)}, "'SLI' is not among the actions (did you mean 'SIL'?)"),
        ({"background": ("SIL", "SIL")}, "name each once"),
        ({"fps": 0.0}, "fps is a positive number or None, not 0.0"),
        ({"offset": float("nan")}, "offset is a number or None"),
        ({"metadata": {"a": {1}}}, "values that JSON can hold"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path, options, words):
    with pytest.raises(StoreError) as caught:
        writer(tmp_path / "s", **options)
    assert words in str(caught.value)


def test_all_problems_of_a_header_are_told_together(tmp_path):
    with pytest.raises(StoreError) as caught:
        writer(tmp_path / "s", dim=0, dtype="int8", fps=-1)
    assert len(caught.value.problems) == 3


def test_a_store_without_clips_is_refused(tmp_path):
    with pytest.raises(StoreError, match="at least one clip"), writer(tmp_path / "s"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_adding_outside_of_the_with_statement_is_refused(tmp_path):
    new = writer(tmp_path / "s")
    with pytest.raises(StoreError, match="inside the `with` statement"):
        new.add("a", np.ones((5, 4)), transcript=(0,))
    with new:
        new.add("a", np.ones((5, 4)), transcript=(0,))
    with pytest.raises(StoreError, match="inside the `with` statement"):
        new.add("b", np.ones((5, 4)), transcript=(0,))


@pytest.mark.parametrize("limit", ["row_group_bytes", "shard_row_groups", "shard_bytes"])
def test_limits_are_at_least_one(limit):
    with pytest.raises(StoreError, match="limits are at least 1"):
        Limits(**{limit: 0})

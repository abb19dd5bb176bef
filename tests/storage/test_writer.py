import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import StoreError, StoreWriter, open_store
from storage.constants import MAX_CLIP_BYTES, Limits
from storage.format.arrays import Conversion
from storage.layouts import Clip
from storage.names import normal
from storage.verify import verify_store
from tests.helpers.refusals import matching, refused
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
    assert all(problem.message or problem.expected for problem in caught.value.problems)
    assert all("\n" not in str(problem) for problem in caught.value.problems)
    return caught.value.problems


@settings(max_examples=25, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["float16", "float32", "float64"]), dim=st.integers(1, 5))
def test_clips_survive_a_round_trip(tmp_path_factory, data, dtype, dim):
    path = tmp_path_factory.mktemp("store") / "s"
    clips = {}
    annotations = {}
    name = st.text(st.characters(categories=("L", "N", "Pd")), min_size=1, max_size=8).map(normal)
    for video in data.draw(st.lists(name, min_size=1, max_size=8, unique=True)):
        lengths = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
        seed = data.draw(st.integers(0, 2**32 - 1))
        clips[video] = np.random.default_rng(seed).normal(size=(sum(lengths), dim)).astype(dtype)
        transcript = data.draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
        annotations[video] = {
            "transcript": data.draw(st.none() | st.just(tuple(transcript))),
            "splits": data.draw(st.sampled_from([(), ("1:train",), ("1:test", "2:train"), ("10:val",)])),
            "group": data.draw(st.none() | st.just("s1")),
            "activity": data.draw(st.none() | st.just("tea")),
        }
        has_lengths = annotations[video]["transcript"] is not None and data.draw(st.booleans())
        annotations[video]["lengths"] = tuple(lengths) if has_lengths else None
    with writer(path, dim=dim, dtype=dtype, fps=25, metadata={"a": [1]}, limits=SMALL) as new:
        for video, features in clips.items():
            new.add(video, features, **annotations[video])
    store = open_store(path)
    assert store.ids == tuple(sorted(clips))
    assert (store.manifest.dim, store.manifest.dtype, store.manifest.fps) == (dim, dtype, 25.0)
    assert store.manifest.metadata == {"a": [1]}
    for video, features in clips.items():
        record = store.record(video)
        assert np.array_equal(store.features(video), features)
        assert store.is_mapped(video)
        assert record.frames == len(features)
        assert {name: getattr(record, name) for name in annotations[video]} == annotations[video]
    assert verify_store(path).problems == ()


def test_the_same_clips_give_the_same_bytes(tmp_path):
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


@pytest.mark.parametrize(
    ("features", "rule", "place", "value", "word"),
    [
        (np.ones((5, 3)), "shape", "v1", [5, 3], "[T, 4]"),
        (np.ones((4, 9)), "shape", "v1", [4, 9], "transposed"),
        (np.ones(4), "shape", "v1", [4], "[T, D]"),
        (np.ones((1, 5, 4)), "shape", "v1", [1, 5, 4], "[T, D]"),
        (np.ones((0, 4)), "shape", "v1", [0, 4], "frame"),
        (np.ones((5, 4), complex), "type", "v1", "complex128", "real"),
        (np.ones((5, 4), object), "type", "v1", "object", "real"),
        (np.ones((5, 4), np.float32) * np.nan, "range", "v1, rows 0-4", 5, "NaN"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_features_are_refused(tmp_path, features, rule, place, value, word):
    (problem,) = problems_of(tmp_path / "s", features)
    assert (problem.rule, problem.place, problem.value) == (rule, place, value)
    assert word in str(problem)


def test_features_that_float16_cannot_represent_are_refused_by_row(tmp_path):
    features = np.ones((5, 4))
    features[3] = 1e5
    (problem,) = problems_of(tmp_path / "s", features, {"dtype": "float16"})
    assert (problem.rule, problem.place, problem.value) == ("range", "v1, row 3", 1e5)
    assert "65504" in problem.message


def test_a_clip_larger_than_a_parquet_page_is_refused_before_it_is_converted(tmp_path):
    frames = MAX_CLIP_BYTES // 16 + 1
    features = np.broadcast_to(np.zeros(4, np.float32), (frames, 4))
    (problem,) = problems_of(tmp_path / "s", features)
    assert (problem.rule, problem.place, problem.value) == ("range", "v1", 16 * frames)
    assert str(MAX_CLIP_BYTES) in problem.message
    assert "dtype" in problem.hint


@pytest.mark.parametrize(
    ("clip", "rule", "place", "value"),
    [
        ({"transcript": (3,)}, "range", "v1", [3]),
        ({"transcript": (0, -1)}, "range", "v1", [-1]),
        ({"transcript": ()}, "missing", "v1", None),
        ({"transcript": (0, 1, 0, 1, 0, 1)}, "mismatch", "v1", 6),
        ({"transcript": (0, 1), "lengths": (2, 2)}, "mismatch", "v1", 4),
        ({"transcript": (0, 1), "lengths": (5,)}, "mismatch", "v1", 1),
        ({"transcript": (0, 1), "lengths": (5, 0)}, "range", "v1, segment 1", [0]),
        ({"transcript": None, "lengths": (5,)}, "missing", "v1", None),
        ({"id": ""}, "range", "id", ""),
        ({"id": " v1"}, "range", "id", " v1"),
        ({"id": "a\nb"}, "range", "id", "a\nb"),
        ({"splits": ("train",)}, "range", "v1", "train"),
        ({"splits": ("1:train", "1:test")}, "conflict", "v1", "1"),
    ],
)
def test_contradictory_annotation_is_refused(tmp_path, clip, rule, place, value):
    problems = problems_of(tmp_path / "s", np.ones((5, 4)), **clip)
    (problem,) = matching(problems, rule, place, value)
    assert problem.place == place


def test_a_clip_of_a_layout_is_added_whole(tmp_path):
    clip = Clip(
        id="a",
        features=np.ones((5, 4)),
        transcript=(1, 2),
        lengths=(2, 3),
        splits=("1:train",),
        group="s1",
        activity="tea",
    )
    with writer(tmp_path / "s") as new:
        new.add_clip(clip)
    store = open_store(tmp_path / "s")
    assert np.array_equal(store.features("a"), clip.features)
    for name in ("id", "transcript", "lengths", "splits", "group", "activity"):
        assert getattr(store.record("a"), name) == getattr(clip, name)


def test_a_fractional_length_is_refused(tmp_path):
    with pytest.raises(TypeError), writer(tmp_path / "s") as new:
        new.add("v1", np.ones((5, 4)), transcript=(0, 1), lengths=(2.5, 2.5))
    assert list(tmp_path.iterdir()) == []


def test_an_action_may_follow_itself(tmp_path):
    with writer(tmp_path / "s") as new:
        new.add("a", np.ones((5, 4)), transcript=(1, 1), lengths=(2, 3))
    assert open_store(tmp_path / "s").record("a").transcript == (1, 1)


def test_an_id_is_added_once_and_a_refused_clip_leaves_the_writer_usable(tmp_path):
    with writer(tmp_path / "s") as new:
        new.add("a", np.ones((5, 4)), transcript=(1,))
        with refused("duplicate", "a", "a", n=1, error=StoreError):
            new.add("a", np.zeros((5, 4)), transcript=(1,))
        new.add("b", np.zeros((5, 4)), transcript=(1,))
    assert open_store(tmp_path / "s").ids == ("a", "b")
    assert verify_store(tmp_path / "s").problems == ()


@pytest.mark.parametrize(
    ("options", "rule", "place", "value", "word"),
    [
        ({"dim": 0}, "range", "dim", 0, "1"),
        ({"dtype": "int8"}, "unknown", "dtype", "int8", "float16"),
        ({"vocabulary": ()}, "missing", "vocabulary", None, "action"),
        ({"vocabulary": ("a", "a")}, "duplicate", "vocabulary", "a", "'a'"),
        ({"vocabulary": ("a", "")}, "range", "vocabulary, id 1", "", "printable"),
        ({"background": ("SLI",)}, "unknown", "background", "SLI", "'SIL'"),
        ({"background": ("SIL", "SIL")}, "duplicate", "background", "SIL", "'SIL'"),
        ({"fps": 0.0}, "range", "fps", 0.0, "positive"),
        ({"offset": math.nan}, "range", "offset", math.nan, "finite"),
        ({"metadata": {"a": {1}}}, "type", "metadata", None, "JSON"),
    ],
)
def test_an_invalid_header_is_refused(tmp_path, options, rule, place, value, word):
    with refused(rule, place, error=StoreError) as refusal:
        writer(tmp_path / "s", **options)
    (problem,) = matching(refusal.problems, rule, place)
    assert problem.place == place
    assert problem.value is value or problem.value == value
    assert word in str(problem)


def test_all_problems_of_a_header_are_reported_together(tmp_path):
    with refused("range", "fps", -1, n=3, error=StoreError) as refusal:
        writer(tmp_path / "s", dim=0, dtype="int8", fps=-1)
    assert refusal.places == ["dim", "dtype", "fps"]


def test_a_store_without_clips_is_refused(tmp_path):
    with refused("missing", str(tmp_path / "s"), None, n=1, error=StoreError), writer(tmp_path / "s"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_adding_outside_of_the_with_statement_is_refused(tmp_path):
    new = writer(tmp_path / "s")
    with refused("state", str(tmp_path / "s"), n=1, error=StoreError):
        new.add("a", np.ones((5, 4)), transcript=(0,))
    with new:
        new.add("a", np.ones((5, 4)), transcript=(0,))
    with refused("state", str(tmp_path / "s"), n=1, error=StoreError):
        new.add("b", np.ones((5, 4)), transcript=(0,))


@pytest.mark.parametrize("limit", ["row_group_bytes", "shard_row_groups", "shard_bytes"])
def test_limits_are_at_least_one_and_a_row_group_fits_into_a_page(limit):
    with refused("range", limit, 0, n=1, error=StoreError):
        Limits(**{limit: 0})
    with refused("range", "row_group_bytes", 2**31, n=1, error=StoreError):
        Limits(row_group_bytes=2**31)


def test_names_are_stored_and_found_in_one_form(tmp_path):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    with writer(tmp_path / "s", vocabulary=["SIL", decomposed], background=[composed]) as new:
        new.add(decomposed, np.ones((3, 4)), transcript=(1,), group=decomposed, activity=f"{decomposed}\u200b")
        with refused("duplicate", composed, composed, n=1, error=StoreError):
            new.add(composed, np.ones((3, 4)), transcript=(1,))
    store = open_store(tmp_path / "s")
    record = store.record(decomposed)
    assert store.manifest.vocabulary == ("SIL", composed)
    assert store.manifest.background == (composed,)
    assert (record.id, record.group, record.activity) == (composed, composed, composed)
    assert decomposed in store
    with refused("duplicate", "vocabulary", composed, n=1, error=StoreError):
        writer(tmp_path / "t", vocabulary=[composed, decomposed])


def test_values_that_float32_cannot_hold_are_refused_in_a_float64_store(tmp_path):
    features = np.zeros((9, 4))
    features[7, 2] = -1e39
    (problem,) = problems_of(tmp_path / "s", features, {"dtype": "float64"})
    assert (problem.rule, problem.place, problem.value) == ("range", "v1, row 7", 1e39)
    assert "float32" in problem.message

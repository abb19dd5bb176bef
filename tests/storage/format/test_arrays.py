import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from storage.format.arrays import Conversion, blocks, prepared, rows_text, statistics, value_problems
from tests.helpers.refusals import matching

clips = arrays_of.arrays(
    np.float64,
    arrays_of.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1000, 1000, allow_subnormal=False),
)


@given(clips)
def test_statistics_match_the_values(features):
    result = statistics(features)
    active = np.flatnonzero(features.any(axis=1))
    assert (result.first_active, result.last_active) == (
        (int(active[0]), int(active[-1])) if len(active) else (None, None)
    )
    assert (result.minimum, result.maximum) == (features.min(), features.max())
    assert np.isclose(result.mean, features.mean(), atol=1e-9)
    assert np.isclose(result.std, features.std(), atol=1e-9)


def test_statistics_of_several_blocks_match_the_whole_array():
    features = np.random.default_rng(0).normal(3, 2, size=(5, 2**17)).astype(np.float32)
    features[0] = 0
    assert len(list(blocks(features))) == 3
    result = statistics(features)
    assert (result.first_active, result.last_active) == (1, 4)
    assert np.isclose(result.mean, features.astype(np.float64).mean(), rtol=1e-12)
    assert np.isclose(result.std, features.astype(np.float64).std(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", ">f4", "float64", "int32"])
def test_a_clip_of_several_blocks_is_converted_and_measured_like_the_whole_array(dtype):
    features = (np.random.default_rng(0).normal(0, 5, size=(2**17, 5)) ** 3).astype(dtype)
    features[:3], features[-2:, 1] = 0, 2**-20
    clip = prepared(np.asfortranarray(features), "float16", "a")
    wide = features.astype(np.float64)
    assert clip.data.tobytes() == wide.astype("<f2").tobytes()
    assert clip.statistics == statistics(clip.data)
    error, normal = np.abs(clip.data - wide), np.abs(wide) >= 2**-14
    assert clip.conversion.absolute_below == error[~normal].max()
    assert clip.conversion.relative == pytest.approx((error[normal] / np.abs(wide[normal])).max(), rel=1e-6)


@given(clips, st.sampled_from(["float16", "float32"]))
def test_conversion_matches_numpy_and_reports_the_largest_error(features, dtype):
    clip = prepared(features, dtype, "a")
    result, change = clip.data, clip.conversion
    assert np.array_equal(result, features.astype(dtype))
    assert result.flags.c_contiguous
    normal = np.abs(features) >= np.finfo(dtype).smallest_normal
    error = np.abs(result.astype(np.float64) - features)
    assert change.relative == np.max(error[normal] / np.abs(features[normal]), initial=0)
    assert change.absolute_below == np.max(error[~normal], initial=0)


def test_rounding_to_float16_is_at_most_half_of_its_precision():
    features = np.random.default_rng(0).normal(size=(500, 8))
    change = prepared(features, "float16", "a").conversion
    assert 4.5e-4 < change.relative <= 2**-11


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_keeping_or_widening_a_dtype_changes_nothing(dtype):
    features = np.random.default_rng(0).normal(size=(3, 4)).astype(dtype)
    for target in ("float16", "float32", "float64"):
        if np.dtype(target).itemsize >= features.dtype.itemsize:
            clip = prepared(features, target, "a")
            result, change = clip.data, clip.conversion
            assert result.dtype == target
            assert change == Conversion()
            assert np.array_equal(result, features)


@pytest.mark.parametrize(
    "features",
    [
        np.arange(12, dtype=">f4").reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype="f8").reshape(3, 4)),
        np.arange(24, dtype="f4").reshape(3, 8)[:, ::2],
        np.arange(12, dtype="f4").reshape(3, 4)[::-1],
        np.arange(12, dtype="i8").reshape(3, 4),
        np.arange(12, dtype="u1").reshape(3, 4),
        np.arange(12).reshape(3, 4) > 5,
    ],
    ids=["big-endian", "Fortran", "every second value", "backwards", "int64", "uint8", "bool"],
)
def test_values_are_kept_for_any_byte_order_memory_order_and_real_dtype(features):
    clip = prepared(features, "float32", "a")
    result, change = clip.data, clip.conversion
    assert result.tolist() == features.astype(float).tolist()
    assert (result.dtype.str, result.flags.c_contiguous, change.relative) == ("<f4", True, 0.0)


def test_integers_that_float32_cannot_represent_exactly_count_as_errors():
    change = prepared(np.array([[2**24 + 1]]), "float32", "a").conversion
    assert change.relative == pytest.approx(1 / (2**24 + 1))


def test_rows_with_nan_or_infinity_are_reported():
    features = np.zeros((9, 3), np.float32)
    features[2:5, 1] = np.nan
    features[7, 0] = -np.inf
    (problem,) = value_problems(features, "float32", "v1")
    assert (problem.rule, problem.place, problem.value) == ("range", "v1, rows 2-4, 7", 4)
    assert "NaN" in problem.message


def test_values_over_65504_are_refused_for_float16_only():
    features = np.full((4, 2), 65504.0)
    assert value_problems(features, "float16", "v1") == []
    features[3, 1] = -65505
    (problem,) = value_problems(features, "float16", "v1")
    assert (problem.rule, problem.place, problem.value) == ("range", "v1, row 3", 65505)
    assert {"float16", "65504"} <= set(problem.message.split())
    assert value_problems(features, "float32", "v1") == []
    assert value_problems(features.astype(np.int64), "float16", "v1") == [problem]


def test_a_row_that_is_not_finite_does_not_hide_one_that_is_too_large():
    features = np.array([[np.nan], [1e6]])
    problems = value_problems(features, "float16", "v1")
    assert [(problem.place, problem.value) for problem in problems] == [("v1, row 0", 1), ("v1, row 1", 1e6)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_over_float32_are_refused_because_models_compute_in_it(dtype):
    problems = value_problems(np.array([[1e39]]), dtype, "v1")
    (problem,) = matching(problems, "range", "v1", 1e39)
    assert "3.40282e+38" in problem.message
    assert "wider" not in problem.hint


@given(st.sets(st.integers(0, 30), min_size=1))
def test_row_numbers_are_formatted_as_ranges(rows):
    text = rows_text(sorted(rows)).split(" and ")[0].split(" ", 1)[1]
    numbers = set()
    for span in text.split(", "):
        first, _, last = span.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    assert numbers <= rows
    assert numbers == rows or " more" in rows_text(sorted(rows))

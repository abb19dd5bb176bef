"""The coarse annotation of Breakfast: lines such as `1-30 SIL`."""

import pytest

from tests.helpers.refusals import matching
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import noted
from tests.storage.layouts.test_layouts import TestBreakfastCoarse as Coarse

SUITE = Coarse()


@pytest.fixture
def source(tmp_path):
    return SUITE.write(DataSet.example(), tmp_path / "src")


def rewrite(source, *lines, video="v000"):
    """Replaces the segments of a video; v000 has 30 frames."""
    path = source / "segmentation_coarse" / f"{video}.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_first_and_last_frames_are_counted_from_one(source, tmp_path):
    rewrite(source, "1-1 SIL", "2 - 29\tpour", "30-30 stir")
    store, _ = SUITE.store(source, tmp_path / "store")
    assert (store.record("v000").transcript, store.record("v000").lengths) == ((0, 1, 2), (1, 28, 1))


def test_annotations_in_folders_of_activities_belong_to_features_without_them(source, tmp_path):
    folder = source / "segmentation_coarse"
    (folder / "cereals").mkdir()
    for path in list(folder.glob("*.txt")):
        path.rename(folder / "cereals" / path.name)
    store, notes = SUITE.store(source, tmp_path / "store")
    assert SUITE.same(store, DataSet.example(), tmp_path)
    assert noted(notes, "(4)", "cereals/v000 -> v000")


@pytest.mark.parametrize(
    ("lines", "rule", "line", "value"),
    [
        (("0-29 SIL", "30-30 pour"), "range", 1, 0),
        (("SIL", "1-30 pour"), "type", 1, "SIL"),
        (("1-30 SIL", "31 40 pour"), "type", 2, "31 40 pour"),
        (("1-30",), "type", 1, "1-30"),
        (("1-10 SIL", "10-30 pour"), "conflict", 2, 9),
        (("1-10 SIL", "12-30 pour"), "missing", 2, [10, 11]),
        (("5-30 SIL",), "missing", 1, [0, 4]),
        (("1-10 SIL", "12-11 pour", "11-30 stir"), "range", 2, [12, 11]),
        (("10-1 SIL", "11-30 pour"), "range", 1, [10, 1]),
        (("1-9999999999 SIL",), "type", 1, "1-9999999999 SIL"),
    ],
    ids=str,
)
def test_what_is_no_complete_sequence_of_segments_is_named_by_its_line(source, tmp_path, lines, rule, line, value):
    path = rewrite(source, *lines)
    problems = SUITE.problems(source, tmp_path)
    assert len(problems) == 1
    assert matching(problems, rule, f"{path}:{line}", value)


def test_gaps_are_filled_with_a_chosen_action_only(source, tmp_path):
    rewrite(source, "3-10 pour", "13-20 stir", "21-22 SIL")
    assert len(SUITE.problems(source, tmp_path)) == 2
    store, notes = SUITE.store(source, tmp_path / "store", fill="SIL")
    record = store.record("v000")
    assert (record.transcript, record.lengths) == ((0, 1, 0, 2, 0), (2, 8, 2, 8, 10))
    assert noted(notes, "--fill", "12 frames", "SIL", "1 video")
    assert store.manifest.metadata["fill"] == "SIL"


def test_a_gap_beside_a_segment_of_the_action_that_fills_it_is_a_part_of_the_segment(source, tmp_path):
    rewrite(source, "3-5 SIL", "6-10 pour", "13-20 SIL", "21-22 SIL")
    store, _ = SUITE.store(source, tmp_path / "store", fill="SIL")
    record = store.record("v000")
    assert (record.transcript, record.lengths) == ((0, 1, 0, 0), (5, 5, 10, 10))


def test_an_end_beyond_the_features_follows_the_length_policy(source, tmp_path):
    rewrite(source, "1-10 SIL", "11-34 pour")
    problems = SUITE.problems(source, tmp_path)
    assert matching(problems, "mismatch", "v000", 34)
    store, notes = SUITE.store(source, tmp_path / "store", length_tolerance=4)
    assert store.record("v000").lengths == (10, 20)
    assert noted(notes, "v000", "30", "34")


def test_an_end_before_that_of_the_features_is_refused_with_the_option_that_fills_it(source, tmp_path):
    rewrite(source, "1-10 SIL", "11-20 pour")
    (problem,) = SUITE.problems(source, tmp_path)
    assert (problem.rule, problem.place, problem.value) == ("mismatch", "v000", 20)
    assert "--fill" in problem.hint


def test_a_far_end_costs_no_memory(source, tmp_path):
    rewrite(source, "1-10 SIL", "11-999999999 pour")
    store, _ = SUITE.store(source, tmp_path / "store", length_policy="resample")
    assert store.record("v000").lengths == (30,)

"""Feature files of numbers as text."""

import numpy as np
import pytest

from storage.feature_files.files import open_features
from tests.helpers.refusals import refused


def read(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_features(path)


@pytest.mark.parametrize(
    "content",
    [
        "1,2.5\n-3,4e2\n",
        "x,y\n1,2.5\n-3,4e2",
        "\ufeffx,y\r\n1,2.5\r\n-3,4e2\r\n\r\n",
        " 1, 2.5 \n-3 ,\t4e2\n",
        "1;2.5\n-3;4e2\n",
        "1 2.5\n-3   4e2\n",
        "x\ty\n1\t2.5\n-3\t4e2\n",
        '"x","y"\n"1","2.5"\n"-3","4e2"\n',
    ],
)
def test_the_delimiter_is_recognised_and_names_of_columns_are_skipped(tmp_path, content):
    values = read(tmp_path, content)
    assert values.dtype == np.float64
    assert values.tolist() == [[1, 2.5], [-3, 400]]


def test_one_frame_and_one_column_keep_two_axes(tmp_path):
    assert read(tmp_path, "1,2\n").shape == (1, 2)
    assert read(tmp_path, "1\n2\n3\n").shape == (3, 1)


def test_numbers_are_read_exactly(tmp_path):
    values = np.random.default_rng(0).normal(size=(4, 3)) * 1e-7
    assert np.array_equal(read(tmp_path, "\n".join(",".join(map(repr, row)) for row in values.tolist())), values)


def test_nan_is_a_number_that_the_import_refuses_later(tmp_path):
    assert np.isnan(read(tmp_path, "1,nan\n2,3\n")).any()


@pytest.mark.parametrize(
    ("content", "place", "value"),
    [
        ("1,2\n3,x\n", ":2, column 2", "x"),
        ("a,b\n1,2\n\n3,\n", ":4, column 2", ""),
        ("1,2,\n3,4,\n", ":1, column 3", ""),
        ("1,b\n1,2\n", ":1, column 2", "b"),
        ("1,2\n1_0,2\n", ":2, column 1", "1_0"),
        ("1,2\n0x1,2\n", ":2, column 1", "0x1"),
        ("1,2\n٣,2\n", ":2, column 1", "٣"),
        ("1,5 2,5\n3,5 4,5\n", ":1, column 2", "5 2"),
        (",x,y\n0,1,2\n", ":1, column 1", ""),
        ("frame,x\n0,3\n1,3\n2,3\n3,3\n4,3\n", ", column 1", 0.0),
        ("1,3\n2,3\n3,3\n4,3\n5,3\n", ", column 1", 1.0),
        ("0,1,2\n3,4,5\n", ":1", "0"),
        ("1,5;2,5\n3,5;4,5\n", ":1", "1,5;2,5"),
    ],
)
def test_what_is_not_a_number_is_named_by_line_and_column(tmp_path, content, place, value):
    with refused("type", f"a.csv{place}", value):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "place", "value"),
    [("1,2\n3\n", ":2", 1), ("1,2\n\n3,4\n", ":2", 0), ("x,y\n1,2\n3,4,5\n", ":3", 3)],
)
def test_lines_of_another_length_are_named(tmp_path, content, place, value):
    with refused("shape", f"a.csv{place}", value, n=1):
        read(tmp_path, content)


@pytest.mark.parametrize("content", ["", "\n\n", "x,y\n"])
def test_a_file_without_numbers_is_refused(tmp_path, content):
    with refused("missing", "a.csv", n=1):
        read(tmp_path, content)


def test_a_flood_of_bad_cells_is_one_problem(tmp_path):
    with refused("type", "a.csv:2, column 1", "x", n=1):
        read(tmp_path, "1\n" + "x\n" * 100)


@pytest.mark.parametrize(("content", "rule"), [("ä".encode("utf-16"), "unreadable"), (b"\x1f\x8b\x08", "type")])
def test_other_contents_are_refused(tmp_path, content, rule):
    with refused(rule, "a.csv", n=1):
        read(tmp_path, content)

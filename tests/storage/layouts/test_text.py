import pytest

from storage import StoreError
from storage.layouts.text import Names, bare, find_files, read_lines
from tests.helpers.refusals import refused


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"a\nb", ["a", "b"]),
        (b"a \r\n\tb\r\n\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        ("größe\n".encode(), ["größe"]),
        (b"a\x0bb\n", ["a\x0bb"]),
    ],
)
def test_lines_are_stripped_of_marks_and_blanks(tmp_path, content, lines):
    (tmp_path / "x.txt").write_bytes(content)
    assert read_lines(tmp_path / "x.txt") == lines


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    place = str(tmp_path / "x.txt")
    with refused("unreadable", place, "No such file or directory", n=1, error=StoreError):
        read_lines(tmp_path / "x.txt")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.txt", "a"), ("a.NPY", "a"), ("a.b", "a.b"), ("a.txt.npy", "a.txt"), ("x\\a.txt", "x/a"), ("./x//a", "x/a")],
)
def test_a_bare_name_has_no_suffix_of_a_data_file(name, expected):
    assert bare(name) == expected


def test_a_name_finds_the_clip_with_the_same_end():
    names = Names(["a/x", "b/x", "b/y", "z"])
    assert names.find("y.txt") == ("b/y",)
    assert names.find("a/x.npy") == ("a/x",)
    assert names.find("data/set/z.txt") == ("z",)
    assert names.find("x") == ("a/x", "b/x")
    assert names.find("c/x") == ()
    assert names.find("yy") == ()


def test_an_exact_name_takes_precedence_over_names_with_the_same_end():
    assert Names(["a/x", "x"]).find("x.txt") == ("x",)


def test_files_behind_links_are_found(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.npy").write_bytes(b"")
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "more").symlink_to(tmp_path / "real")
    assert list(find_files(tmp_path / "features", ".npy", [])) == ["more/a"]

import pytest

from storage import StoreError
from storage.layouts.text import Names, bare, find_files, read_lines


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
def test_lines_are_without_what_editors_leave(tmp_path, content, lines):
    (tmp_path / "x.txt").write_bytes(content)
    assert read_lines(tmp_path / "x.txt") == lines


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(StoreError, match=r"x\.txt cannot be read \(No such file"):
        read_lines(tmp_path / "x.txt")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.txt", "a"), ("a.NPY", "a"), ("a.b", "a.b"), ("a.txt.npy", "a.txt"), ("x\\a.txt", "x/a"), ("./x//a", "x/a")],
)
def test_a_bare_name_has_no_suffix_of_a_data_file(name, expected):
    assert bare(name) == expected


def test_a_name_finds_the_clip_that_ends_like_it():
    names = Names(["a/x", "b/x", "b/y", "z"])
    assert names.find("y.txt") == ("b/y",)
    assert names.find("a/x.npy") == ("a/x",)
    assert names.find("data/set/z.txt") == ("z",)
    assert names.find("x") == ("a/x", "b/x")
    assert names.find("c/x") == ()
    assert names.find("yy") == ()


def test_a_clip_of_exactly_that_name_goes_before_those_that_end_like_it():
    assert Names(["a/x", "x"]).find("x.txt") == ("x",)


def test_files_behind_links_are_found(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.npy").write_bytes(b"")
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "more").symlink_to(tmp_path / "real")
    assert list(find_files(tmp_path / "features", ".npy")) == ["more/a"]

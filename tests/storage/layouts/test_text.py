import os
from pathlib import Path

import pytest

from storage import StoreError
from storage.layouts.text import Names, bare, find_files, read_lines
from tests.helpers.refusals import matching, refused


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
        ("a\n\u200b\n\u00a0\n".encode(), ["a"]),
    ],
)
def test_lines_are_stripped_of_marks_and_blanks(tmp_path, content, lines):
    (tmp_path / "x.txt").write_bytes(content)
    assert read_lines(tmp_path / "x.txt") == lines


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    place = str(tmp_path / "x.txt")
    with refused("unreadable", place, "No such file or directory", n=1, error=StoreError):
        read_lines(tmp_path / "x.txt")


def test_a_pointer_in_place_of_a_text_file_is_named(tmp_path):
    (tmp_path / "x.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n")
    with refused("type", str(tmp_path / "x.txt"), "version", n=1, error=StoreError):
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


def test_a_link_that_leads_back_is_not_followed_again(tmp_path):
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "x.npy").write_bytes(b"")
    (tmp_path / "a" / "deep" / "y.npy").write_bytes(b"")
    (tmp_path / "a" / "deep" / "up").symlink_to("..")
    (tmp_path / "A link to a").symlink_to("a")
    (tmp_path / "self").symlink_to(".")
    problems = []
    assert list(find_files(tmp_path, ".npy", problems)) == ["a/deep/y", "a/x"]
    assert problems == []


def test_a_pipe_that_nobody_writes_and_a_device_without_an_end_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    (tmp_path / "b.txt").symlink_to("/dev/zero")
    (tmp_path / "c.txt").symlink_to("nowhere")
    problems = []
    assert list(find_files(tmp_path, ".txt", problems)) == ["c"]
    assert [(problem.rule, Path(problem.place).name) for problem in problems] == [("type", "a.txt"), ("type", "b.txt")]


def test_names_are_read_in_one_form_and_two_files_of_one_name_are_reported(tmp_path):
    for name in ("cafe\u0301.txt", "caf\u00e9.txt", "te\u0301.TXT"):
        (tmp_path / name).write_text("x")
    problems = []
    assert list(find_files(tmp_path, ".txt", problems)) == ["caf\u00e9", "t\u00e9"]
    (problem,) = matching(problems, "duplicate", "caf", "caf\u00e9")
    assert len(problems) == 1
    assert problem.hint
    assert Names(["a/caf\u00e9"]).find("cafe\u0301.txt") == ("a/caf\u00e9",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cafe\u0301", "caf\u00e9"),
        ("pour\u00a0milk\u00a0", "pour milk"),
        ("\u200bpo\u00adur\ufeff", "pour"),
        ("\u3000stir", "stir"),
    ],
)
def test_lines_that_look_alike_are_equal(tmp_path, line, expected):
    (tmp_path / "x.txt").write_text(f"{line}\n", encoding="utf-8")
    assert read_lines(tmp_path / "x.txt") == [expected]

"""What is refused in the file of a sweep, and at which place."""

from pathlib import Path

import pytest

from sweeps.service.cli import main
from tests.helpers.refusals import ANY
from tests.helpers.sweep_files import problems

BOMB = "".join(f"a{i}: &a{i} [{', '.join(9 * [f'*a{i - 1}'])}]\n" for i in range(1, 10))
"""A value with 9 ** 9 parts in a few lines."""

ROWS = "grid: {mask.shape: [box]}\n"


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ('title: "half \\ud83c"', "title", ANY),
        ('title: "\\e[31mred"', "title", ANY),
        ('variants: [{name: "nul \\0"}]', "variants[0].name", ANY),
        ('figure: {kind: curve, x_title: "a\\x07"}', "figure.x_title", ANY),
        ('"k\\x01": 1', "line 2", ANY),
        ("set: {training.epochs: 010}", "set.training.epochs", "010"),
        ("set: {training.epochs: 1:30}", "set.training.epochs", "1:30"),
        ("seeds: 0x3", "seeds", "0x3"),
        ("zip: {training.epochs: [2024-01-01]}", "zip.training.epochs[0]", "2024-01-01"),
        (f"name: {'a' * 201}", "name", "a" * 201),
    ],
)
def test_texts_that_cannot_be_shown_and_numbers_that_yaml_reads_otherwise_are_refused_with_their_key(
    tmp_path: Path, text: str, place: str, value: object
) -> None:
    (problem,) = problems(tmp_path, f"{ROWS}{text}")
    assert problem.place == place
    assert value is ANY or problem.value == value
    assert str(problem).isprintable()


@pytest.mark.parametrize(
    ("text", "rule", "place", "value"),
    [
        ("", "type", "", None),
        ("- a", "type", "", ["a"]),
        ("title: x", "missing", "", None),
        ("gird: {loss.smoothing: [1]}", "unknown", "gird", "gird"),
        ("grid: {loss.smothing: [1]}", "unknown", "grid.loss.smothing", "loss.smothing"),
        ("grid: {loss: {smothing: [1]}}", "unknown", "grid.loss.smothing", "loss.smothing"),
        ("grid: [1]", "type", "grid", [1]),
        ("grid: {loss.smoothing: [0.1, fast]}", "type", "grid.loss.smoothing[1]", "fast"),
        ("grid: {training.epochs: [0, 5]}", "range", "grid.training.epochs[0]", 0),
        ("grid: {mask.shape: [box, bel]}", "type", "grid.mask.shape[1]", "bel"),
        ("grid: {loss.smoothing: []}", "missing", "grid.loss.smoothing", []),
        ("grid: {loss.smoothing: 0.1}", "type", "grid.loss.smoothing", 0.1),
        ("grid: {seed: [1, 2]}", "conflict", "grid.seed", [1, 2]),
        ("grid: {loss.smoothing: [0.1, 0.10]}", "duplicate", "rows", "0.1"),
        ("grid: {loss.smoothing: [0, 0.0]}", "duplicate", "", ("0", "0.0")),
        (
            f"grid: {{training.epochs: {list(range(1, 41))}, loss.length: {list(range(30))}}}",
            "range",
            "",
            40 * 30,
        ),
        (
            "zip: {training.epochs: [1, 2], loss.length: [1]}",
            "shape",
            "zip",
            {"training.epochs": 2, "loss.length": 1},
        ),
        ("{zip: {loss.length: [1, 2]}, grid: {loss.length: [3]}}", "duplicate", "grid.loss.length", "loss.length"),
        (
            "{variants: [{name: a, set: {loss.length: 1}}], grid: {loss.length: [3]}}",
            "duplicate",
            "grid.loss.length[0]",
            "loss.length",
        ),
        ("variants: []", "type", "variants", []),
        ("variants: [a]", "type", "variants[0]", "a"),
        ("variants: [{set: {loss.length: 1}}]", "missing", "variants[0].name", None),
        ("variants: [{name: no}]", "type", "variants[0].name", False),
        ("variants: [{name: a}, {name: a}]", "duplicate", "variants[1].name", "a"),
        ("variants: [{name: a}, {name: b}]", "duplicate", "", ("a", "b")),
        ("variants: [{name: a, sett: {}}]", "unknown", "variants[0].sett", "sett"),
        ("variants: [{name: a, prediction: frame}]", "unknown", "variants[0].prediction", "frame"),
        ("variants: [{name: a, task: align}]", "unknown", "variants[0].task", "align"),
        ("{set: {loss.length: x}, variants: [{name: a}]}", "type", "set.loss.length", "x"),
        ("{set: {backbone.n_layers: 4}, variants: [{name: a}]}", "range", "set: backbone.pool_after", ANY),
        ("{recipe: breakfst, variants: [{name: a}]}", "unknown", "recipe", "breakfst"),
        ("{recipe: [demo], variants: [{name: a}]}", "type", "recipe", ["demo"]),
        ("{name: a b, variants: [{name: a}]}", "range", "name", "a b"),
        ("{name: taken, variants: [{name: a}]}", "duplicate", "name", "taken"),
        ("{title: [a], variants: [{name: a}]}", "type", "title", ["a"]),
        ("{seeds: 0, variants: [{name: a}]}", "range", "seeds", 0),
        ("{seeds: yes, variants: [{name: a}]}", "type", "seeds", True),
        ("{seeds: [1, 2], variants: [{name: a}]}", "type", "seeds", [1, 2]),
        ("{seeds: auto:5..3, variants: [{name: a}]}", "range", "seeds", "auto:5..3"),
        ("{seeds: auto:3..5, until: 0, variants: [{name: a}]}", "range", "until", "0"),
        ("{seeds: 3, until: 1.0, variants: [{name: a}]}", "conflict", "until", 1.0),
        ("{splits: [], variants: [{name: a}]}", "type", "splits", []),
        ("{splits: [1, 1], variants: [{name: a}]}", "duplicate", "splits", "1"),
        ("{metrics: mof, variants: [{name: a}]}", "type", "metrics", "mof"),
        ("{metrics: [3], variants: [{name: a}]}", "type", "metrics[0]", 3),
        ("{metrics: [moff], variants: [{name: a}]}", "unknown", "metrics[0]", "moff"),
        ("{metrics: [mof, frame.mof], variants: [{name: a}]}", "unknown", "metrics[1]", "frame"),
        ("{metrics: [mof, mof], variants: [{name: a}]}", "duplicate", "metrics[1]", "MoF"),
        ("{metrics: [{metric: mof, unti: x}], variants: [{name: a}]}", "unknown", "metrics[0].unti", "unti"),
        ("{metrics: [{metric: mof, title: [x]}], variants: [{name: a}]}", "type", "metrics[0].title", ["x"]),
        ("{figure: bars, variants: [{name: a}]}", "type", "figure", "bars"),
        ("{figure: {kid: bars}, variants: [{name: a}]}", "unknown", "figure.kid", "kid"),
        ("{figure: {kind: [bars]}, variants: [{name: a}]}", "type", "figure.kind", ["bars"]),
        ("{figure: {kind: bar}, variants: [{name: a}]}", "unknown", "figure.kind", "bar"),
        ("{figure: {recordings: one}, variants: [{name: a}]}", "type", "figure.recordings", "one"),
        ("{figure: {n_recordings: x}, variants: [{name: a}]}", "type", "figure.n_recordings", "x"),
        ("{default: b, variants: [{name: a}]}", "unknown", "default", "b"),
        ("{seeds: 1, seeds: 2}", "duplicate", "line 1", "seeds"),
        ("grid:\n  a: [1\nb: 2", "unreadable", "line 3", ANY),
        ("set: &a {b: *a}\n", "unreadable", "", ANY),
        (5_000 * "[", "unreadable", "", ANY),
        (f"a0: &a0 [x]\n{BOMB}title: *a9\n", "unreadable", "", ANY),
    ],
)
def test_a_wrong_file_is_refused_at_the_keys_place(
    tmp_path: Path, text: str, rule: str, place: str, value: object
) -> None:
    (problem,) = problems(tmp_path, text, taken=("taken",))
    assert (problem.rule, problem.place) == (rule, place)
    assert value is ANY or (problem.value, type(problem.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("gird: {loss.smoothing: [1]}", "grid"),
        ("grid: {loss.smothing: [1]}", "loss.smoothing"),
        ("variants: [{name: a, sett: {}}]", "set"),
        ("variants: [{name: a, prediction: frame}]", "frames"),
        ("{recipe: breakfst, variants: [{name: a}]}", "breakfast"),
        ("{metrics: [moff], variants: [{name: a}]}", "mof"),
        ("{metrics: [frame.mof], variants: [{name: a}]}", "frames"),
        ("{figure: {kid: bars}, variants: [{name: a}]}", "kind"),
        ("{default: aa, variants: [{name: aaa}]}", "aaa"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(tmp_path: Path, text: str, nearest: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert f"did you mean {nearest!r}" in problem.message


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ("grid: {backbone.channels: [6], backbone.n_groups: [4]}", "grid.backbone.n_groups[0]", 4),
        ("grid: {backbone.channels: [6]}", "row '6': backbone.n_groups", 32),
        ("{set: {backbone.channels: 6}, grid: {loss.length: [0, 2]}}", "set: backbone.n_groups", 32),
    ],
)
def test_a_value_that_contradicts_another_is_refused_once_where_the_file_has_it_or_needs_it(
    tmp_path: Path, text: str, place: str, value: int
) -> None:
    (problem,) = problems(tmp_path, text)
    assert (problem.rule, problem.place, problem.value) == ("range", place, value)


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = "{titel: x, seeds: no, set: {loss.smothing: 1}, grid: {training.epochs: [0], mask: 3}}"
    assert [problem.place for problem in problems(tmp_path, text)] == [
        "titel",
        "set.loss.smothing",
        "grid.mask",
        "grid.training.epochs[0]",
        "seeds",
    ]


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("nowhere.yaml", None, "no such file"),
        ("folder.yaml", "a folder", "Is a directory"),
        ("latin.yaml", b"title: \xe4\n", "byte 7"),
        ("mine.txt", b"title: a\n", "'.txt'"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | str | None, word: str
) -> None:
    file = tmp_path / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        file.mkdir()
    assert main(None, ["run", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file}: ")
    assert word in line

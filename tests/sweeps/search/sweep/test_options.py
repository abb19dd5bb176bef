"""The options of a search's script."""

from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.commands.options import experiment_named
from sweeps.service.commands.run import script_parser
from sweeps.service.commands.running.search_options import asked_search
from sweeps.service.spec.search import Search
from tests.helpers.refusals import refused


def asked(*words: str) -> Search:
    search = experiment_named("search")
    assert isinstance(search, Search)
    return asked_search(search, script_parser(search, None).parse(list(words)))


def test_options_replace_the_values_of_the_search_and_the_demo_has_fewer_points() -> None:
    words = ["--store", "x", "--trials", "7", "--seeds", "2", "--sampler", "random", "--sampler-seed", "0", "--best"]
    found = asked(*words, "1", "--fresh-seeds", "4", "--rungs", "0.6", "0.8", "--name", "mine")
    assert (found.trials, found.seeds, found.sampler, found.sampler_seed) == (7, 2, "random", 0)
    assert (found.best, found.fresh_seeds, found.rungs, found.name) == (1, 4, (0.6, 0.8), "mine")
    assert asked("--store", "x").trials == 20
    assert asked().trials == 8
    assert asked("--rungs").rungs == ()


@pytest.mark.parametrize(
    ("words", "rule", "place"),
    [
        (["--part", "test"], "conflict", "--part"),
        (["--rungs", "1.5"], "range", "rungs"),
        (["--name", "a/b"], "range", "name"),
    ],
)
def test_wrong_values_are_refused(words: list[str], rule: str, place: str) -> None:
    with refused(rule, place):
        asked(*words)


def test_a_leak_by_option_ends_with_status_2_before_anything_is_written(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--part", "test"]
    assert main(experiment_named("search"), words) == 2
    assert "--part" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()

"""The key `search` of a sweep file: what it describes, and what is refused at which place."""

import textwrap
from pathlib import Path

import pytest

from sweeps.service.commands.options import experiment_named
from sweeps.service.spec.columns import INFERENCE_SECONDS, MOF, Column
from sweeps.service.spec.files.reading import read_experiment
from sweeps.service.spec.recipe import Recipe
from sweeps.service.spec.search import Bound, Choice, Integer, LogUniform, Search, Uniform, value_problems
from tests.helpers.refusals import refused

WHOLE = """
title: Rate and masks
recipe: hollywood
set: {training.epochs: 30}
search:
  space:
    training.learning_rate: {loguniform: [0.003, 0.1]}
    mask.shape: [box, bell]
    mask.overlap: {uniform: [0, 0.5], step: 0.1, when: {mask.shape: bell}}
    mask.min_ramp_frames: {choice: [0, 8], when: {mask.shape: [box]}}
    backbone.channels: {int: [32, 128], step: 32}
  objectives: [mof, frames.edit]
  constraints: [{metric: inference_seconds, at_most: 3}]
  trials: 5
  sampler: nsga2
  sampler_seed: 0
  rungs: [0.7]
  best: 2
  fresh_seeds: 4
  part: validation
seeds: 2
splits: [1, two]
"""


def read(folder: Path, text: str) -> Search:
    path = folder / "mine.yaml"
    path.write_text(textwrap.dedent(text))
    found = read_experiment(path)
    assert isinstance(found, Search)
    return found


def test_a_file_describes_a_search(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == Search(
        name="mine",
        title="Rate and masks",
        space={
            "training.learning_rate": LogUniform(0.003, 0.1),
            "mask.shape": Choice(("box", "bell")),
            "mask.overlap": Uniform(0, 0.5, step=0.1, when={"mask.shape": ("bell",)}),
            "mask.min_ramp_frames": Choice((0, 8), when={"mask.shape": ("box",)}),
            "backbone.channels": Integer(32, 128, step=32),
        },
        objectives=(MOF, Column(metric="edit", prediction="frames", title="Edit frames")),
        constraints=(Bound(column=INFERENCE_SECONDS, at_most=3),),
        base=Recipe("hollywood", {"training.epochs": 30}),
        demo_base=Recipe("hollywood", {"training.epochs": 30}),
        trials=5,
        demo_trials=5,
        seeds=2,
        sampler="nsga2",
        sampler_seed=0,
        rungs=(0.7,),
        best=2,
        fresh_seeds=4,
        splits=("1", "two"),
    )


SPACE = "{loss.smoothing: {uniform: [0, 1]}}"


@pytest.mark.parametrize(
    ("text", "rule", "place"),
    [
        ("search: 3", "type", "search"),
        ("search: {trials: 3}", "missing", "search.space"),
        ("search: {space: [1]}", "type", "search.space"),
        (f"search: {{space: {SPACE}, trails: 3}}", "unknown", "search.trails"),
        (f"search: {{space: {SPACE}, trials: 0}}", "range", "search.trials"),
        (f"search: {{space: {SPACE}, best: x}}", "type", "search.best"),
        (f"search: {{space: {SPACE}, sampler: guess}}", "unknown", "search.sampler"),
        (f"search: {{space: {SPACE}, rungs: 0.7}}", "type", "search.rungs"),
        (f"search: {{space: {SPACE}, rungs: [1.5]}}", "range", "search.rungs"),
        (f"search: {{space: {SPACE}, objectives: [mov]}}", "unknown", "search.objectives[0]"),
        (f"search: {{space: {SPACE}, constraints: {{metric: mof}}}}", "type", "search.constraints"),
        (f"search: {{space: {SPACE}, constraints: [{{metric: mof}}]}}", "conflict", "search.constraints[0]"),
        (f"search: {{space: {SPACE}, constraints: [{{metric: mof, at_most: x}}]}}", "type", "[0].at_most"),
        (f"search: {{space: {SPACE}, part: test}}", "conflict", "search.part"),
        (f"grid: {{mask.shape: [box]}}\nsearch: {{space: {SPACE}}}", "conflict", "grid"),
        (f"set: {{loss.smoothing: 1}}\nsearch: {{space: {SPACE}}}", "duplicate", "set.loss.smoothing"),
        ("search: {space: {loss.smothing: [1, 2]}}", "unknown", "search.space.loss.smothing"),
        ("search: {space: {seed: [1, 2]}}", "conflict", "search.space.seed"),
        ("search: {space: {loss.smoothing: 1}}", "type", "search.space.loss.smoothing"),
        ("search: {space: {loss.smoothing: {uniform: [0, 1], int: [0, 1]}}}", "type", "search.space.loss.smoothing"),
        ("search: {space: {loss.smoothing: {uniform: [0]}}}", "type", "search.space.loss.smoothing.uniform"),
        ("search: {space: {loss.smoothing: {uniform: [1, 0]}}}", "range", "search.space.loss.smoothing"),
        ("search: {space: {loss.smoothing: {uniform: [-1, 1]}}}", "range", "search.space.loss.smoothing"),
        ("search: {space: {loss.smoothing: {loguniform: [0.1, 1], step: 1}}}", "unknown", "loss.smoothing.step"),
        ("search: {space: {backbone.n_layers: {int: [6.5, 11]}}}", "type", "search.space.backbone.n_layers.int"),
        ("search: {space: {backbone.n_layers: {int: [6, 8], log: 1}}}", "type", "backbone.n_layers.log"),
        ("search: {space: {mask.shape: [box, round]}}", "type", "search.space.mask.shape"),
        ("search: {space: {mask.shape: {choice: box}}}", "type", "search.space.mask.shape.choice"),
        ("search: {space: {loss.smoothing: {uniform: [0, 1], when: 3}}}", "type", "loss.smoothing.when"),
        ("search: {space: {loss.smoothing: {uniform: [0, 1], when: {mask.shape: box}}}}", "unknown", "smoothing.when"),
    ],
)
def test_a_wrong_value_is_a_problem_at_its_path(tmp_path: Path, text: str, rule: str, place: str) -> None:
    with refused(rule, place):
        read(tmp_path, text)


def test_all_problems_of_a_file_are_reported_together(tmp_path: Path) -> None:
    text = "search: {space: {mask.shape: [box, round], loss.x: [1]}, trials: 0, part: test}\nseeds: 0"
    with refused("unknown", "search.space.loss.x", n=4) as refusal:
        read(tmp_path, text)
    assert {place.rpartition(": ")[2] for place in refusal.places} == {
        *("search.space.loss.x", "search.trials", "search.part", "seeds")
    }


@pytest.mark.parametrize("field", [{"part": "test"}, {"part": "train"}])
def test_a_search_in_python_that_looks_at_another_part_is_refused(tmp_path: Path, field: dict[str, str]) -> None:
    path = tmp_path / "leak.py"
    path.write_text(
        "from sweeps.api import Choice, Search\n"
        f"EXPERIMENT = Search(name='x', title='x', space={{'mask.shape': Choice(('box',))}}, **{field})\n"
    )
    with refused("conflict", "part", field["part"]):
        read_experiment(path)


def test_the_search_of_the_package_has_values_that_its_recipes_accept() -> None:
    search = experiment_named("search")
    assert isinstance(search, Search)
    for base in (search.base(), search.demo_base()):
        assert not [problem for path in search.space for problem in value_problems(search.space, path, base)]

"""Experiments as values: the cells they expand to, and the wrong ones."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mucon import recipes
from mucon.config import TrainConfig
from mucon.methods import method_named
from sweeps.ablation_masks import EXPERIMENT
from sweeps.beyond import EXPERIMENT as BEYOND
from sweeps.service.commands.options import experiment_names, experiments
from sweeps.service.plan.cells import Cell, expand, settings_by_method
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Collection, Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.spec.recipe import Recipe, recipe_name, with_recipe
from sweeps.service.trials.trial import Trial
from tests.helpers.refusals import matching, refused

ROOT = Path(__file__).parents[3]


def expanded(
    experiment: Experiment = EXPERIMENT,
    *,
    settings: dict[str, object] | None = None,
    seeds: tuple[int, ...] = (1, 2),
    splits: tuple[str, ...] = ("1", "2"),
) -> dict[Cell, Trial]:
    """The cells of an experiment on each method's default recipe."""
    return expand(
        experiment,
        base=lambda method: method_named(method).config(),
        settings=settings_by_method(experiment, settings or {}),
        seeds=seeds,
        splits=splits,
        fingerprint=lambda split, *_: "f" + split,
        n_training=lambda _: 40,
        store="/s",
    )


def test_the_mask_ablation_has_the_papers_six_rows() -> None:
    names = [variant.name for variant in EXPERIMENT.variants]
    assert names == ["box, no", "bell, no", "trapezoid, no", "box, 10 %", "bell, 10 %", "trapezoid, 10 %"]


def test_rows_beyond_the_paper_share_a_training_if_they_differ_in_their_decoding_alone() -> None:
    base = BEYOND.base()
    trained = {row.labels: base.with_values(row.settings).canonical().trained_differences() for row in BEYOND.variants}
    for (one, others), (another, differences) in itertools.combinations(trained.items(), 2):
        assert (others == differences) == (one[0] == another[0])


def test_an_experiment_is_every_row_on_every_split_with_every_seed() -> None:
    trials = expanded()
    assert len(trials) == len({trial.key for trial in trials.values()}) == 6 * 2 * 2
    for cell, trial in trials.items():
        assert (cell.identity, cell.evaluation) == (trial.identity, trial.evaluation)
        assert cell.seed == trial.config.seed
        assert trial.config.mask.shape == cell.variant.labels[0]
        assert trial.config.mask.overlap == (0.1 if cell.variant.labels[1] == "10 %" else 0.0)
    assert [cell.seed for cell in trials] == [1] * 12 + [2] * 12


def test_a_trial_survives_the_way_to_a_worker() -> None:
    for trial in expanded().values():
        assert Trial.from_dict(trial.to_dict()) == trial


def test_the_command_lines_settings_win_over_the_rows() -> None:
    rows = tuple(
        Variant(labels=(shape,), settings={"mask.shape": shape, "loss.length": 2}) for shape in ("box", "bell")
    )
    experiment = Experiment(name="x", title="X", label_titles=("Shape",), variants=rows)
    settings = {"loss.length": "0.5", "training.epochs": 7}
    trials = expanded(experiment, settings=settings, seeds=(1,), splits=("1",))
    assert [trial.config.loss.length for trial in trials.values()] == [0.5, 0.5]
    assert [trial.config.training.epochs for trial in trials.values()] == [7, 7]


def test_rows_that_become_one_trial_are_refused_by_name() -> None:
    with refused("duplicate", place="ablation_masks", n=4) as refusal:
        expanded(settings={"mask.shape": "box"})
    assert refusal.values == [
        ("box, no", "bell, no"),
        ("box, no", "trapezoid, no"),
        ("box, 10 %", "bell, 10 %"),
        ("box, 10 %", "trapezoid, 10 %"),
    ]
    assert all("--set mask.shape=box" in problem.message for problem in refusal.problems)


def test_rows_that_differ_in_evaluation_only_share_their_training() -> None:
    rows = tuple(
        Variant(labels=(prior,), settings={"decoding.length_prior": prior}) for prior in ("segment", "class", "none")
    )
    experiment = Experiment(name="priors", title="Priors", label_titles=("Prior",), variants=rows)
    trials = expanded(experiment, seeds=(1,), splits=("1",)).values()
    assert len({trial.identity for trial in trials}) == 1
    assert len({trial.evaluation for trial in trials}) == 3


def test_unknown_settings_and_wrong_values_are_reported_together_once() -> None:
    with refused("unknown", place="mask.shap", value="mask.shap", n=2) as refusal:
        expanded(settings={"mask.shap": "box", "training.epochs": "many"})
    assert "'mask.shape'" in refusal.problems[0].message
    assert matching(refusal.problems, "type", "training.epochs", "many")


def test_the_seed_cannot_be_set_for_all_trials() -> None:
    with refused("conflict", place="seed", value="3", n=1) as refusal:
        expanded(settings={"seed": "3"})
    assert "--seeds" in refusal.problems[0].hint


def test_an_experiment_with_indistinguishable_or_unlabelled_rows_is_refused() -> None:
    rows = (Variant(labels=("a",)), Variant(labels=("a",)), Variant(labels=("b", "c")))
    with refused("duplicate", place="rows", value="a", n=2) as refusal:
        Experiment(name="x", title="X", label_titles=("Row",), variants=rows)
    assert matching(refusal.problems, "shape", "rows", "b, c")
    with refused("missing", place="rows", n=1):
        Experiment(name="x", title="X", label_titles=("Row",), variants=())


def test_a_collection_without_tables_or_with_equal_names_is_refused() -> None:
    table = Experiment(name="x", title="X", label_titles=("Row",), variants=(Variant(labels=("a",)),))
    with refused("duplicate", place="tables", value="x", n=1):
        Collection(name="both", title="Both", experiments=(table, table))
    with refused("missing", place="tables", n=1):
        Collection(name="none", title="None", experiments=())


@pytest.mark.parametrize(
    ("figure", "rule", "place", "value"),
    [
        (Figure(kind="bar"), "unknown", "figure.kind", "bar"),
        (Figure(y="MoFF"), "unknown", "figure.y", "MoFF"),
        (Figure(kind="curve", x="MoF"), "unknown", "figure.x", "MoF"),
        (Figure(kind="scatter", x="Row"), "unknown", "figure.x", "Row"),
        (Figure(kind="scatter"), "missing", "figure.x", None),
        (Figure(n_recordings=0), "range", "figure.n_recordings", 0),
    ],
)
def test_a_figure_of_what_the_table_does_not_have_is_refused(
    figure: Figure, rule: str, place: str, value: object
) -> None:
    with refused(rule, place=place, value=value, n=1):
        Experiment(name="x", title="X", label_titles=("Row",), variants=(Variant(labels=("a",)),), figure=figure)


def test_the_default_row_is_one_of_the_rows() -> None:
    with refused("unknown", place="default", value="ax", n=1):
        Experiment(name="x", title="X", label_titles=("Row",), variants=(Variant(labels=("a",)),), default_row="ax")


def test_a_recipe_is_a_name_with_settings_on_top_of_it() -> None:
    recipe = Recipe("weak", {"training.epochs": "30"})
    assert recipe() == TrainConfig().with_values({"training.epochs": 30})
    assert with_recipe(recipe, "hollywood")() == recipes.hollywood().with_values({"training.epochs": 30})
    assert with_recipe(recipes.demo, "hollywood")() == recipes.hollywood()
    assert [recipe_name(base) for base in (recipe, recipes.demo)] == ["weak", "demo"]
    assert Recipe("breakfast", {"training.epochs": "30"})() == recipe()
    with refused("unknown", place="recipe", value="pubished", n=1) as refusal:
        Recipe("pubished")()
    assert "'published_program'" in refusal.problems[0].message


def test_every_experiment_of_the_package_is_found_by_its_files_name() -> None:
    files = {path.stem for path in (ROOT / "sweeps").glob("*.py") if not path.stem.startswith("_")}
    assert {*experiment_names(), "api"} == files
    assert [experiment.name for experiment in experiments().values()] == list(experiments()) == experiment_names()


def test_no_file_beside_the_scripts_is_named_like_another_module() -> None:
    """`python sweeps/X.py` puts sweeps/ first on the search path, in Ray's workers too."""
    stems = {path.stem for path in (ROOT / "sweeps").iterdir() if path.suffix == ".py" or path.is_dir()}
    program = "import importlib.util, sys; print([n for n in sys.argv[1:] if importlib.util.find_spec(n)])"
    elsewhere = [sys.executable, "-I", "-c", program, *sorted(stems - {"__init__", "__main__", "__pycache__"})]
    found = subprocess.run(elsewhere, capture_output=True, text=True, check=True, cwd="/").stdout
    assert found.strip() == "[]"


def test_the_experiments_files_define_no_function() -> None:
    for path in (ROOT / "sweeps").glob("*.py"):
        text = path.read_text()
        assert "def " not in text, path
        assert "lambda" not in text, path


def test_rows_of_several_methods_are_trials_of_their_own_with_the_settings_that_their_method_has() -> None:
    rows = (
        Variant(labels=("MuCon",)),
        Variant(labels=("MS-TCN",), method="ms_tcn", prediction="frames"),
        Variant(labels=("MS-TCN++",), method="ms_tcn_pp", prediction="frames"),
    )
    experiment = Experiment(name="x", title="X", label_titles=("Method",), variants=rows)
    trials = expanded(experiment, settings={"training.epochs": "7", "mask.shape": "bell"}, seeds=(1,), splits=("1",))
    assert [trial.method for trial in trials.values()] == ["mucon", "ms_tcn", "ms_tcn_pp"]
    assert [trial.training.epochs for trial in trials.values()] == [7, 7, 7]
    assert len({trial.identity for trial in trials.values()}) == 3
    for trial in trials.values():
        assert Trial.from_dict(trial.to_dict()) == trial
    with refused("unknown", place="mask.shap", n=1):
        expanded(experiment, settings={"mask.shap": "bell"})
    own = {
        "training.epochs": "7",
        "ms_tcn:training.epochs": "9",
        "mucon:mask.shape": "bell",
        "frame_mlp:network.maps": "4",
    }
    found = list(expanded(experiment, settings=own, seeds=(1,), splits=("1",)).values())
    assert [trial.training.epochs for trial in found] == [7, 9, 7]
    assert found[0].identity == next(iter(trials.values())).identity
    for path, value, place in (
        ("ms_tcn:mask.shape", "bell", "mask.shape"),
        ("ms_tnc:training.epochs", "9", "ms_tnc:training.epochs"),
    ):
        with refused("unknown", place=place, n=1):
            expanded(experiment, settings={path: value})
    with refused("conflict", place="ms_tcn:seed", value="3", n=1):
        expanded(experiment, settings={"ms_tcn:seed": "3"})
    with refused("unknown", place="method", value="ms_tnc"):
        expanded(replace(experiment, variants=(Variant(labels=("x",), method="ms_tnc"),)))


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a" * 201, "-x", "ä"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with refused("range", place="name", value=name, n=1):
        replace(EXPERIMENT, name=name)
    with refused("range", place="name", value=name, n=1):
        Collection(name=name, title="Both", experiments=(EXPERIMENT,))


def test_tables_whose_files_some_file_systems_take_for_one_are_refused() -> None:
    tables = (replace(EXPERIMENT, name="masks"), replace(EXPERIMENT, name="Masks"))
    with refused("duplicate", place="tables", value="Masks", n=2):
        Collection(name="both", title="Both", experiments=tables)


def test_texts_that_cannot_be_shown_are_refused() -> None:
    with refused("type", place="title", n=1):
        replace(EXPERIMENT, title="a\x1b[31m")
    rows = (Variant(labels=("box\0", "no")), *EXPERIMENT.variants[1:])
    with refused("type", place="rows"):
        replace(EXPERIMENT, variants=rows)

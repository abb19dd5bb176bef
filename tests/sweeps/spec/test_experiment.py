"""Experiments as data: what they expand to, and what they refuse."""

import subprocess
import sys
from pathlib import Path

import pytest

from mucon.config import TrainConfig
from mucon.errors import InputError
from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import experiments
from sweeps.service.plan.cells import Cell, expand
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.trial import Trial

ROOT = Path(__file__).parents[3]


def expanded(**more: object) -> dict[Cell, Trial]:
    options = {
        "base": TrainConfig(),
        "settings": {},
        "seeds": [1, 2],
        "splits": ["1", "2"],
        "fingerprint": lambda split, _: "f" + split,
        "store": "/s",
    }
    return expand(EXPERIMENT, **{**options, **more})


def test_the_mask_ablation_has_the_papers_six_rows() -> None:
    names = [variant.name for variant in EXPERIMENT.variants]
    assert names == ["box, no", "bell, no", "trapezoid, no", "box, 10 %", "bell, 10 %", "trapezoid, 10 %"]


def test_an_experiment_is_every_row_on_every_split_with_every_seed() -> None:
    trials = expanded()
    assert len(trials) == len({trial.key for trial in trials.values()}) == 6 * 2 * 2
    for cell, trial in trials.items():
        assert (cell.identity, cell.evaluation) == (trial.identity, trial.evaluation)
        assert cell.seed == trial.config.seed
        assert trial.config.mask.shape == cell.variant.labels[0]
        assert trial.config.mask.overlap == (0.1 if cell.variant.labels[1] == "10 %" else 0.0)
    assert [cell.seed for cell in trials] == [1] * 12 + [2] * 12


def test_a_trial_survives_its_way_to_a_worker() -> None:
    for trial in expanded().values():
        assert Trial.from_dict(trial.to_dict()) == trial


def test_the_command_lines_settings_win_over_the_rows() -> None:
    rows = tuple(
        Variant(labels=(shape,), settings={"mask.shape": shape, "loss.length": 2}) for shape in ("box", "bell")
    )
    experiment = Experiment(name="x", title="X", label_titles=("Shape",), variants=rows)
    settings = {"loss.length": "0.5", "training.epochs": 7}
    trials = expand(
        experiment,
        base=TrainConfig(),
        settings=settings,
        seeds=[1],
        splits=["1"],
        fingerprint=lambda *_: "f",
        store="/s",
    )
    assert [trial.config.loss.length for trial in trials.values()] == [0.5, 0.5]
    assert [trial.config.training.epochs for trial in trials.values()] == [7, 7]


def test_rows_that_become_one_trial_are_refused_by_name() -> None:
    with pytest.raises(InputError) as refused:
        expanded(settings={"mask.shape": "box"})
    assert refused.value.problems == (
        "rows of a table are different trials, 'box, no' and 'bell, no' become the same with --set mask.shape=box: "
        "leave out what makes them equal, or train that one row with `mucon train`",
        "rows of a table are different trials, 'box, no' and 'trapezoid, no' become the same with --set "
        "mask.shape=box: leave out what makes them equal, or train that one row with `mucon train`",
        "rows of a table are different trials, 'box, 10 %' and 'bell, 10 %' become the same with --set "
        "mask.shape=box: leave out what makes them equal, or train that one row with `mucon train`",
        "rows of a table are different trials, 'box, 10 %' and 'trapezoid, 10 %' become the same with --set "
        "mask.shape=box: leave out what makes them equal, or train that one row with `mucon train`",
    )


def test_rows_that_differ_in_evaluation_only_share_their_training() -> None:
    rows = tuple(
        Variant(labels=(prior,), settings={"decoding.length_prior": prior}) for prior in ("segment", "class", "none")
    )
    experiment = Experiment(name="priors", title="Priors", label_titles=("Prior",), variants=rows)
    trials = expand(
        experiment, base=TrainConfig(), settings={}, seeds=[1], splits=["1"], fingerprint=lambda *_: "f", store="/s"
    ).values()
    assert len({trial.identity for trial in trials}) == 1
    assert len({trial.evaluation for trial in trials}) == 3


def test_unknown_settings_and_wrong_values_are_told_together_once() -> None:
    with pytest.raises(InputError) as refused:
        expanded(settings={"mask.shap": "box", "training.epochs": "many"})
    unknown, wrong = refused.value.problems
    assert "'mask.shap'" in unknown
    assert "'mask.shape'" in unknown
    assert "training.epochs" in wrong
    assert "'many'" in wrong


def test_the_seed_cannot_be_set_for_all_trials() -> None:
    with pytest.raises(InputError, match="use --seeds"):
        expanded(settings={"seed": "3"})


def test_an_experiment_whose_rows_cannot_be_told_apart_is_refused() -> None:
    rows = (Variant(labels=("a",)), Variant(labels=("a",)), Variant(labels=("b", "c")))
    with pytest.raises(InputError) as refused:
        Experiment(name="x", title="X", label_titles=("Row",), variants=rows)
    assert [problem.split(",")[0] for problem in refused.value.problems] == [
        "rows have distinct labels",
        "a row has one label for each of Row",
    ]
    with pytest.raises(InputError, match="has none"):
        Experiment(name="x", title="X", label_titles=("Row",), variants=())


def test_every_experiment_of_the_package_is_found_by_its_files_name() -> None:
    found = experiments()
    files = {path.stem for path in (ROOT / "sweeps").glob("*.py") if not path.stem.startswith("_")}
    assert set(found) == files


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

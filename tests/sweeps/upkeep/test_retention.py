"""Which checkpoints stay whole, and what still works on the others."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from mucon.checkpoint_files import OPTIMISER
from mucon.errors import EXIT_PARTIAL
from mucon.methods import method_named
from sweeps.service.driver import Options, run_plan
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.track.compare import registered_trials
from sweeps.service.trials import lease
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.retention import best, beyond, reduce, retain
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.trial_folders import append_status
from tests.sweeps import small


def planted(results: Path, name: str, keep: int | None, metric: str = "mof") -> Plan:
    """Rows a to d with rising scores; d is unfinished; all with a state of the optimiser."""
    shape = Experiment(
        name=name,
        title=name,
        label_titles=("Row",),
        variants=tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate("abcd")),
        columns=(Column(metric="edit"), Column(metric=metric)),
    )
    unfinished = {("d", "1", 1): Unfinished("stopped")}
    plan = make_sweep(results, shape, lambda row, *_: ord(row) / 200, n_seeds=1, unfinished=unfinished)
    for folder in plan.tracked.folders:
        folder.checkpoint_path.mkdir(parents=True)
        (folder.checkpoint_path / OPTIMISER).write_bytes(b"12345")
        (folder.checkpoint_path / "state.json").write_text('{"progress": {"finished": true}}')
    note(plan, name, keep)
    return plan


def note(plan: Plan, name: str, keep: int | None, *trials: str) -> None:
    info = SweepInfo(name=name, title="", command="", config={}, keep=keep)
    write_sweep(plan.results, info, "mucon", dict.fromkeys(trials, "row") if trials else plan.rows)


def rows(plan: Plan) -> str:
    return "".join(plan.rows[folder.identity] for folder in beyond(plan.results))


def test_the_best_by_the_first_column_with_values_stay_in_its_direction(tmp_path: Path) -> None:
    plan = planted(tmp_path / "up", "up", 1)
    values = plan.read_results()
    (part,) = plan.parts
    assert [plan.rows[identity] for identity in best(part, values, 2)] == ["c", "b"]
    assert sorted(rows(plan)) == ["a", "b"]
    errors = planted(tmp_path / "down", "down", 1, "boundary_error_frames")
    assert sorted(rows(errors)) == ["a", "b"], "the error falls with the score"


def test_without_keep_and_with_another_sweep_that_keeps_all_or_cannot_be_read_everything_stays(tmp_path: Path) -> None:
    plan = planted(tmp_path, "one", None)
    assert rows(plan) == ""
    note(plan, "one", 1)
    a, b, *_ = (folder.identity for folder in plan.tracked.folders)
    assert [folder.identity for folder in beyond(plan.results, registered=lambda: [a])] == [b]
    note(plan, "two", None, a)
    assert rows(plan) == "b"
    start = SweepInfo(name="three", title="", command="", config={"set": {"training.warm_start": f"x/trials/{b}/run"}})
    write_sweep(plan.results, start, "mucon", {})
    assert rows(plan) == ""
    shutil.rmtree(plan.results.sweep("three"))
    (plan.results.sweep("two") / "sweep.json").write_text("{")
    assert rows(plan) == ""


def test_the_command_of_a_finished_sweep_completes_a_reduction_that_was_killed(tmp_path: Path) -> None:
    plan = planted(tmp_path, "one", 1)
    append_status(plan.tracked.folders[3], "diverged", 5)
    info = SweepInfo(name="one", title="", command="", config={}, keep=1)
    options = Options(device="cpu", cpus="1", gpus="0", checkpoint_seconds=0, tracking_uri=None, info=info)
    assert sorted(rows(plan)) == ["a", "b"]
    assert run_plan(plan, {}, options, Console()) == EXIT_PARTIAL
    assert rows(plan) == ""


def test_without_an_answer_about_registered_models_all_stay_whole_with_a_line(tmp_path: Path) -> None:
    plan = planted(tmp_path, "one", 1)
    (line,) = retain(plan.results, partial(registered_trials, plan.results, "http://127.0.0.1:9"))
    assert "127.0.0.1:9" in line
    assert sorted(rows(plan)) == ["a", "b"]


def test_a_held_unfinished_or_damaged_trial_is_left_alone_and_a_removal_is_recorded(tmp_path: Path) -> None:
    plan = planted(tmp_path, "one", 1)
    a, b, _, d = plan.tracked.folders
    with lease.acquire(a.path) or pytest.fail("free"):
        assert reduce(a) == 0
    assert reduce(a) == 5
    assert reduce(a) == 0
    assert not (a.checkpoint_path / OPTIMISER).exists()
    removal = json.loads(a.retention_path.read_text())
    assert (removal["removed"], removal["bytes"]) == ([OPTIMISER], 5)
    assert reduce(d) == 0
    b.training_path.write_text("{")
    assert reduce(b) == 0
    (b.checkpoint_path / "state.json").write_text('{"progress": {"finished": false}}')
    assert reduce(b) == 0
    assert (b.checkpoint_path / OPTIMISER).exists()


def test_a_reduced_trial_is_evaluated_and_read_and_its_training_is_not_repeated(
    tiny_store: Path, tmp_path: Path
) -> None:
    adam = {"training__optimiser": "adam", "training__learning_rate": 0.001}
    trial, results = small.make_trial(tiny_store, **adam), ResultsFolder(tmp_path)
    run_trial(trial, results, device="cpu")
    folder = results.trial(trial.identity)
    digest = small.weights(tmp_path)
    assert reduce(folder) > 10_000
    epochs: list[object] = []
    other = small.make_trial(tiny_store, decoding__length_prior="none", **adam)
    assert run_trial(other, results, device="cpu", report=epochs.append).state is State.FINISHED
    assert method_named("mucon").load(folder.checkpoint_path).weights_sha256() == digest[trial.identity]
    folder.training_path.write_text("{")  # damaged
    for result in folder.path.glob("evaluations/*/result.json"):
        result.unlink()
    assert run_trial(trial, results, device="cpu", report=epochs.append).state is State.FINISHED
    assert small.weights(tmp_path) == digest
    assert not epochs

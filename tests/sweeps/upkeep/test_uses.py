"""Who needs a trial."""

import json
from dataclasses import replace
from pathlib import Path

from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.uses import read_uses
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.trial_folders import write_trial


def write(results: ResultsFolder, name: str, *trials: str, **settings: object) -> Path:
    info = SweepInfo(name=name, title=name, command="", config={"set": settings})
    write_sweep(results, info, "mucon", dict.fromkeys(trials, "row"))
    return results.sweep(name)


def test_sweeps_and_trials_need_the_trials_that_they_contain_and_start_from(tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    first = write_trial(tmp_path)
    start = {"training": {"epochs": 3, "warm_start": str(first.run_path)}}
    second = write_trial(tmp_path, shape="bell", config=start)
    write(results, "one", first.identity)
    write(results, "two", second.identity)
    write(results, "three", **{"training.warm_start": f"elsewhere/trials/{second.identity}"})
    uses = read_uses(results)
    assert uses.needed_by(first.identity) == f"sweep one, trial {second.identity}"
    assert uses.needed_by(first.identity, sweep="one", trials=[second.identity]) == ""
    assert uses.needed_by(second.identity) == "sweep three, sweep two"
    assert not uses.unreadable


def test_a_sweep_needs_the_trial_from_which_its_base_configuration_starts(tmp_path: Path) -> None:
    shape = Experiment(name="one", title="", label_titles=("Row",), variants=(Variant(labels=("a",)),))
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=1)
    (part,) = plan.parts
    started = replace(part, settings={("a",): {"training.warm_start": f"trials/{'f' * 16}/run"}})
    replace(plan, parts=(started,)).write()
    assert read_uses(plan.results).needed_by("f" * 16) == "sweep one"


def test_a_sweep_is_read_from_plan_or_record_and_named_if_both_are_damaged(tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    folder = write(results, "one", "a" * 16)
    (folder / "plan.json").write_text("{")
    assert read_uses(results).sweeps == {"one": frozenset(["a" * 16])}
    assert not read_uses(results).unreadable
    (folder / "sweep.json").write_text(json.dumps([]))
    assert list(read_uses(results).unreadable) == ["one"]
    (folder / "sweep.json").unlink()
    assert list(read_uses(results).unreadable) == ["one"]

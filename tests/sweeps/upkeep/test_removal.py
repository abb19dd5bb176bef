"""What `mucon-sweeps rm` removes, leaves and refuses."""

import json
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import SweepInfo, write_sweep
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials import lease
from sweeps.service.upkeep import trash
from sweeps.service.upkeep.removal import plan_removal, remove
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused


def experiment(name: str, rows: str) -> Experiment:
    variants = tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate(rows))
    return Experiment(name=name, title=name, label_titles=("Row",), variants=variants)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A sweep of three rows; the last one is also in the sweep `other`."""
    plan = make_sweep(tmp_path, experiment("one", "abc"), lambda *_: 0.5, n_seeds=1)
    info = SweepInfo(name="other", title="", command="", config={})
    write_sweep(plan.results, info, "mucon", {plan.tracked.folders[2].identity: "c"})
    return plan


def identities(plan: Plan) -> list[str]:
    return [folder.identity for folder in plan.tracked.folders if folder.path.exists()]


def test_the_sweep_and_its_own_trials_go_and_shared_registered_and_starting_ones_stay(plan: Plan) -> None:
    a, b, c = identities(plan)
    start = {"training": {"warm_start": str(plan.tracked.folders[1].checkpoint_path)}}
    plan.results.trial("f" * 16).path.mkdir()
    plan.results.trial("f" * 16).trial_path.write_text(json.dumps({"format_version": 2, "config": start}))
    removal = plan_removal(plan.results, "one")
    assert list(removal.trials) == [a]
    assert removal.kept == {b: f"trial {'f' * 16}", c: "sweep other"}
    assert plan_removal(plan.results, "one", [a]).kept[a] == "a registered model"
    assert remove(plan.results, removal) == {}
    assert identities(plan) == [b, c]
    assert not plan.folder.exists()
    assert not plan.results.running("one").exists()
    assert list(trash.trash(plan.results).iterdir()) == []


def test_a_trial_from_which_only_removed_ones_start_goes_with_them(plan: Plan) -> None:
    a, b, _ = identities(plan)
    start = {"training": {"warm_start": str(plan.tracked.folders[0].run_path)}}
    plan.tracked.folders[1].trial_path.write_text(json.dumps({"format_version": 2, "config": start}))
    assert set(plan_removal(plan.results, "one").trials) == {a, b}
    assert plan_removal(plan.results, "one", [b]).kept[a] == f"trial {b}"


def test_a_running_sweep_a_held_trial_and_unknown_names_are_refused(plan: Plan) -> None:
    a = plan.tracked.folders[0]
    with lease.acquire(a.path) or pytest.fail("free"), refused("busy", value=a.identity, n=1):
        plan_removal(plan.results, "one")
    removal = plan_removal(plan.results, "one")
    with lease.acquire(plan.results.running("one")) or pytest.fail("free"):
        with refused("busy", value="one", n=1):
            plan_removal(plan.results, "one")
        with refused("busy", value="one", n=1):
            remove(plan.results, removal)
    (trash.trash(plan.results) / f"trials-{a.identity}").mkdir(parents=True)
    for name in ("two", "../one", f"../trials/{a.identity}"):
        with refused("unknown", value=name):
            plan_removal(plan.results, name)
    (plan.results.sweep("other") / "sweep.json").write_text("{")
    with refused("damaged", value="other"):
        plan_removal(plan.results, "one")
    assert len(identities(plan)) == 3


def test_nothing_is_removed_while_a_sweep_has_begun_that_has_not_recorded_its_trials(plan: Plan) -> None:
    info = SweepInfo(name="other", title="", command="", config={})
    with lease.acquire(plan.results.running("other")) or pytest.fail("free"):
        with refused("busy", value="other", n=1):
            plan_removal(plan.results, "one")
        write_sweep(plan.results, info, "mucon", {plan.tracked.folders[0].identity: "a"})
        assert len(plan_removal(plan.results, "one").kept) == 2


def test_a_trial_that_a_process_takes_meanwhile_stays_with_the_sweep(plan: Plan) -> None:
    a, b, c = identities(plan)
    removal = plan_removal(plan.results, "one")
    with lease.acquire(plan.tracked.folders[0].path) or pytest.fail("free"):
        assert list(remove(plan.results, removal)) == [a]
    assert identities(plan) == [a, c]
    assert plan.folder.exists()
    assert b in removal.trials


def test_the_command_asks_and_says_what_it_does(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["rm", "one", "--results", str(plan.results.path)]
    assert main(arguments=line) == 2, "without a terminal"
    assert main(arguments=[*line, "--json"]) == 2
    assert main(arguments=[*line, "--dry-run"]) == 0
    assert len(identities(plan)) == 3
    capsys.readouterr()
    assert main(arguments=[*line, "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["format_version"], shown["removed"], len(shown["trials"]), len(shown["kept"])) == (1, False, 2, 1)
    assert main(arguments=[*line, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**shown, "removed": True}
    assert len(identities(plan)) == 1

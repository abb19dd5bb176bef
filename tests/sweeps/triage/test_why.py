"""`status --why`: how a wanted trial differs from the nearest recorded one, and which text names which trial."""

import json
from pathlib import Path
from typing import Any

import pytest

import mucon
from mucon.config import TrainConfig
from mucon.errors import EXIT_PARTIAL
from mucon.videos import ScoredPart
from sweeps.service.cli import main
from sweeps.service.plan.plan import make_plan
from sweeps.service.plan.sweep_folder import Rerun, SweepInfo, write_sweep
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.triage.naming import find
from sweeps.service.triage.why import Explanation, explain
from sweeps.service.trials import lease
from sweeps.service.trials.folder import FORMAT_VERSION
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.refusals import refused
from tests.sweeps import small

ROWS: dict[str, dict[str, Any]] = {"a": {"mask.shape": "bell"}, "b": {"loss.smoothing": 0.3, "decoding.beam": 7}}


@pytest.fixture(scope="module")
def other_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny store with another first video, without the last test video, and with one training video more."""
    return small.make_store(tmp_path_factory.mktemp("other") / "store", n_train=7, n_test=2, seed=1)


def plan(
    results: Path, store: Path, n_seeds: int = 1, part: ScoredPart = "test", **settings: object
) -> dict[tuple[str, int], Trial]:
    """Plans the sweep `one` and records its rows; (row, seed) -> trial."""
    shape = Experiment(
        name="one",
        title="one",
        label_titles=("Row",),
        variants=tuple(Variant(labels=(row,), settings=own) for row, own in ROWS.items()),
        columns=(Column(metric="mof"),),
    )
    given = {**small.TINY, **{path.replace("__", "."): value for path, value in settings.items()}}
    made, trials = make_plan(
        shape,
        store=store,
        base=lambda *_: TrainConfig(),
        settings=given,
        seeds=range(1, n_seeds + 1),
        splits=("1",),
        results=ResultsFolder(results),
        part=part,
    )
    made.write()
    write_sweep(made.results, SweepInfo(name="one", title="one", command="the command", config={}), "mucon", made.rows)
    return {(cell.variant.name, cell.seed): trials[cell.key] for cell in made.cells}


def record(results: Path, trial: Trial, **changes: object) -> None:
    """A trial that has started."""
    folder = ResultsFolder(results).trial(trial.identity)
    folder.path.mkdir(parents=True)
    folder.write_trial({**trial.to_dict(), **changes})


def why(results: Path, text: str) -> Explanation:
    return explain(ResultsFolder(results), text)


def test_a_changed_setting_is_named_with_both_values(tiny_store: Path, tmp_path: Path) -> None:
    old = plan(tmp_path, tiny_store)
    for trial in old.values():
        record(tmp_path, trial)
    new = plan(tmp_path, tiny_store, loss__smoothing=0.25)
    found = why(tmp_path, "b, split 1, seed 1")
    assert (found.state, found.identity, found.nearest) == ("stale", new["b", 1].identity, old["b", 1].identity)
    assert [(one.what, one.wanted, one.recorded) for one in found.differences] == [("loss.smoothing", 0.25, 0.3)]
    assert (found.recordings, found.notes) == (None, ())
    assert "the command" in found.advice
    rerun = Rerun(sweep="ablation_masks", words=("--results", "x", "--notify", "***"), folder="/started/here")
    info = SweepInfo(name="one", title="one", command="the command", config={}, rerun=rerun)
    write_sweep(ResultsFolder(tmp_path), info, "mucon", {})
    shown = f"`mucon-sweeps run ablation_masks --results {tmp_path}` in /started/here"
    assert shown in why(tmp_path, "b, split 1, seed 1").advice
    running = ResultsFolder(tmp_path).running("one")
    with lease.acquire(running) or pytest.fail("free"):
        assert str(lease.holder(running)) in why(tmp_path, "b, split 1, seed 1").advice, "the run takes it up"


def test_another_seed_is_nearest_to_the_same_row(tiny_store: Path, tmp_path: Path) -> None:
    old = plan(tmp_path, tiny_store)
    for trial in old.values():
        record(tmp_path, trial)
    plan(tmp_path, tiny_store, n_seeds=2)
    found = why(tmp_path, "a/1/2")
    assert (found.state, found.nearest) == ("missing", old["a", 1].identity)
    assert [(one.what, one.wanted, one.recorded) for one in found.differences] == [("seed", 2, 1)]


def test_a_trial_on_another_part_is_not_an_earlier_version_of_the_trial(tiny_store: Path, tmp_path: Path) -> None:
    old = plan(tmp_path, tiny_store)
    for trial in old.values():
        record(tmp_path, trial)
    plan(tmp_path, tiny_store, part="validation")
    found = why(tmp_path, "a/1/1")
    assert (found.state, found.nearest) == ("missing", old["a", 1].identity)
    assert [(one.what, one.wanted, one.recorded) for one in found.differences] == [("part", "validation", "test")]


def test_other_numerics_and_another_method_are_named(tiny_store: Path, tmp_path: Path) -> None:
    trial = plan(tmp_path, tiny_store)["a", 1]
    record(tmp_path, trial, numerics=0)
    (tmp_path / "trials" / trial.identity).rename(tmp_path / "trials" / ("0" * 16))
    found = why(tmp_path, "a/1/1")
    assert [(one.what, one.wanted, one.recorded) for one in found.differences] == [("numerics", mucon.NUMERICS, 0)]


def test_recordings_that_were_added_removed_or_changed_are_named(
    tiny_store: Path, other_store: Path, tmp_path: Path
) -> None:
    old = plan(tmp_path, tiny_store)["a", 1]
    record(tmp_path, old)
    folder = ResultsFolder(tmp_path).trial(old.identity)
    per_video = [{"id": id, "n_frames": 1} for id in ("video_06", "video_07", "video_08")]
    result = {"train_seconds": 1.0, "weights_sha256": "0", "scores": {}, "per_video": per_video}
    folder.write_result(old.evaluation, result)
    plan(tmp_path, other_store)
    found = why(tmp_path, "a/1/1")
    assert (found.state, found.nearest) == ("stale", old.identity)
    assert [one.what for one in found.differences] == ["data"]
    assert found.recordings is not None
    assert (found.recordings.added, found.recordings.removed) == ((), ("video_06",))
    assert found.recordings.changed == ("video_07", "video_08")


def test_a_store_that_is_gone_or_replaced_since_the_plan_is_noted(
    tiny_store: Path, other_store: Path, tmp_path: Path
) -> None:
    place = tmp_path / "store"
    place.symlink_to(tiny_store)
    results = tmp_path / "results"
    plan(results, place)
    assert why(results, "a/1/1").notes == why(results, "b/1/1").notes
    n_notes = len(why(results, "a/1/1").notes)
    place.unlink()
    place.symlink_to(other_store)
    assert len(why(results, "a/1/1").notes) == n_notes + 1
    place.unlink()
    assert any(str(place) in note for note in why(results, "a/1/1").notes)


def test_a_plan_of_an_earlier_version_compares_the_rows_own_settings(tiny_store: Path, tmp_path: Path) -> None:
    old = plan(tmp_path, tiny_store)
    record(tmp_path, old["b", 1])
    path = tmp_path / "sweeps" / "one" / "plan.json"
    value = json.loads(path.read_text())
    del value["tables"][0]["settings"]
    path.write_text(json.dumps(value))
    found = why(tmp_path, "a/1/1")
    assert [(one.what, one.wanted) for one in found.differences] == [("mask.shape", "bell")]


def test_an_evaluation_that_is_missing_is_compared_with_those_of_its_training(tiny_store: Path, tmp_path: Path) -> None:
    trial = plan(tmp_path, tiny_store)["b", 1]
    record(tmp_path, trial)
    folder = ResultsFolder(tmp_path).trial(trial.identity)
    folder.write_training(weights_sha256="0", train_seconds=1.0)
    assert (why(tmp_path, "b/1/1").differences, len(why(tmp_path, "b/1/1").notes)) == ((), 1)
    result = {"train_seconds": 1.0, "weights_sha256": "0", "scores": {}, "per_video": [], "choices": {}}
    folder.write_result("f" * 16, {**result, "evaluation_version": mucon.EVALUATION})
    found = why(tmp_path, "b/1/1")
    assert found.nearest == trial.identity
    assert [(one.what, one.wanted, one.recorded) for one in found.differences] == [("decoding.beam", 7, "default")]


def test_a_failed_trial_has_its_reason_time_and_advice(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = plan(tmp_path, tiny_store)["a", 1]
    record(tmp_path, trial)
    folder = ResultsFolder(tmp_path).trial(trial.identity)
    with Journal(folder.journal_path) as journal:
        journal.status("failed", reason="no cake", host="h", pid=1)
    words = ["status", "--results", str(tmp_path), "--why", trial.identity[:6]]
    assert main(None, words) == EXIT_PARTIAL
    assert "no cake" in capsys.readouterr().out
    assert main(None, [*words, "--json"]) == EXIT_PARTIAL
    shown = json.loads(capsys.readouterr().out)
    assert (shown["format_version"], shown["state"], shown["reason"]) == (4, "failed", "no cake")
    assert shown["since"] > 1e9
    assert f"debug {folder.path}" in shown["advice"]


def test_texts_name_trials(tiny_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = plan(tmp_path, tiny_store, n_seeds=2)
    results, a1 = ResultsFolder(tmp_path), trials["a", 1].identity
    record(tmp_path, trials["a", 1])
    monkeypatch.chdir(tmp_path)
    for text in (a1, a1[:8], "a, split 1, seed 1", " a,  split 1, seed 1", "one: a/1/1", "a/1/1", f"trials/{a1}"):
        assert find(results, text).identity == a1, text
    assert find(results, f"trials/{a1}/run").title == "a, split 1, seed 1"
    for text in ("c/1/1", "a/1/3", a1[:3], "f" * 400, ""):
        with refused("unknown", str(tmp_path), value=text):
            find(results, text)
    with refused("unknown", value="two"):
        find(results, a1, "two")
    for last in "12":
        path = results.trial(f"abcdef000000000{last}").trial_path
        path.parent.mkdir()
        path.write_text(json.dumps({"format_version": FORMAT_VERSION, "config": {}}))
    with refused("duplicate", value="abcdef"):
        find(results, "abcdef")
    assert find(results, "abcdef0000000001").places == ()


def test_a_trial_of_no_sweep_whose_only_result_is_damaged_is_not_finished(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store)
    record(tmp_path, trial)
    path = ResultsFolder(tmp_path).trial(trial.identity).result_path(trial.evaluation)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    found = why(tmp_path, trial.identity)
    assert (found.state, found.is_finished) == ("damaged", False)
    assert str(path) in (found.reason or "")

"""A search between its study and the engine: what is trained, what is known, and what a kill leaves."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from storage.fencing import Writer
from sweeps.service.run.source import Exhausted
from sweeps.service.run.worker import Outcome
from sweeps.service.search.points import read_history
from sweeps.service.trials.folder import State
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.trial import Trial
from tests.helpers.planted_searches import Planted, ground_of, search_of


def test_a_search_that_is_killed_twice_is_the_study_of_an_undisturbed_one(tiny_store: Path, tmp_path: Path) -> None:
    search = search_of(rungs=(0.7,))
    undisturbed = Planted.open(search, ground_of(tiny_store, tmp_path / "one"))
    undisturbed.train()
    assert undisturbed.growth.has_ended
    trained = []
    for most in (3, 2, None):
        killed = Planted.open(search, ground_of(tiny_store, tmp_path / "other"))
        killed.train(most=most)
        trained += killed.trained
    assert killed.queue.history() == undisturbed.queue.history()
    assert trained == undisturbed.trained
    assert len(set(trained)) == len(trained)
    tables = [[part.experiment for part in one.points.plan.parts] for one in (killed, undisturbed)]
    assert tables[0] == tables[1]
    assert {cell.key for cell in killed.points.plan.cells} == set(trained)


def test_a_trial_that_an_earlier_sweep_trained_is_known(tiny_store: Path, tmp_path: Path) -> None:
    first = Planted.open(search_of(), ground_of(tiny_store, tmp_path))
    first.train()
    again = Planted.open(search_of(name="again"), ground_of(tiny_store, tmp_path))
    again.train()
    assert again.trained == []
    assert again.growth.has_ended
    assert again.queue.history().records == first.queue.history().records
    assert len(again.points.plan.cells) == len(first.trained)


def test_points_that_are_the_same_training_are_trained_once(tiny_store: Path, tmp_path: Path) -> None:
    space = {
        "mask.shape": search_of().space["mask.shape"],
        "mask.overlap_rule": replace(search_of().space["mask.shape"], options=("symmetric", "published")),
    }
    planted = Planted.open(search_of(space=space, sampler="grid", seeds=1), ground_of(tiny_store, tmp_path))
    planted.train()
    assert len(planted.trained) == len(planted.queue.history().records) == 2  # without overlap the rule has no effect


def test_no_more_trainings_than_fit_are_handed_out(tiny_store: Path, tmp_path: Path) -> None:
    planted = Planted.open(search_of(), ground_of(tiny_store, tmp_path), slots=2)
    first, second = planted.growth.next_training(), planted.growth.next_training()
    assert first is not None
    assert second is not None
    assert first != second
    assert planted.growth.next_training() is None


def test_a_limit_on_the_trainings_ends_the_source_and_a_larger_one_goes_on(tiny_store: Path, tmp_path: Path) -> None:
    for most, n in ((2, 2), (3, 1)):
        planted = Planted.open(search_of(), ground_of(tiny_store, tmp_path), most=most)
        planted.train()
        assert len(planted.trained) == n
        assert not planted.growth.has_ended


def test_a_stopped_trial_is_not_told_and_is_trained_by_the_next_command(tiny_store: Path, tmp_path: Path) -> None:
    planted = Planted.open(search_of(), ground_of(tiny_store, tmp_path))
    training = planted.growth.next_training()
    assert training is not None
    planted.growth.ended(training[0], Outcome(State.STOPPED, "interrupted"))
    with pytest.raises(Exhausted):
        planted.growth.next_training()
    assert not planted.growth.has_ended
    again = Planted.open(search_of(), ground_of(tiny_store, tmp_path))
    assert again.growth.next_training() == training


def test_a_point_that_fails_is_recorded_and_the_others_go_on(tiny_store: Path, tmp_path: Path) -> None:
    planted = Planted.open(search_of(), ground_of(tiny_store, tmp_path))
    training = planted.growth.next_training()
    assert training is not None
    (trial,) = training
    folder = planted.points.ground.results.trial(trial.identity)
    folder.path.mkdir(parents=True)
    folder.journal_path.write_text(
        '{"kind": "status", "timestamp": 1, "host": "h", "pid": 1, "status": "diverged", "reason": "loss is NaN"}\n'
    )
    planted.growth.ended(trial, Outcome(State.DIVERGED, "loss is NaN"))
    planted.train()
    record = planted.queue.history().record(0)
    assert (record.state, record.reason) == ("failed", "loss is NaN")
    assert planted.growth.has_ended
    assert read_history(planted.points.folder).record(0) == record
    again = Planted.open(search_of(), ground_of(tiny_store, tmp_path))
    assert again.growth.has_ended
    assert [cell.key for cell in again.points.plan.cells].count(trial.key) == 1


def end(planted: Planted, state: State, reason: str, **facts: object) -> Trial:
    """Ends the next training without a result, as its worker records it."""
    training = planted.growth.next_training()
    assert training is not None
    (trial,) = training
    folder = planted.points.ground.results.trial(trial.identity)
    folder.path.mkdir(parents=True, exist_ok=True)
    with Journal(folder.journal_path) as written:
        written.status(state, reason=reason, host="h", pid=1, evaluation=trial.evaluation, **facts)
    planted.growth.ended(trial, Outcome(state, reason))
    return trial


def test_a_training_that_its_machine_has_broken_is_repeated_and_its_point_does_not_count_as_failed(
    tiny_store: Path, tmp_path: Path
) -> None:
    planted = Planted.open(search_of(seeds=1), ground_of(tiny_store, tmp_path))
    broken = end(planted, State.FAILED, "CUDA error: ECC")
    planted.train()
    assert {record.state for record in planted.queue.history().records[1:]} == {"complete"}
    assert len(planted.trained) == 4
    assert not planted.growth.has_ended
    again = Planted.open(search_of(seeds=1), ground_of(tiny_store, tmp_path))
    again.train()
    assert again.trained == [broken.key]
    assert again.growth.has_ended


@pytest.mark.parametrize(("reason", "facts"), [("out of memory: no", {}), ("no cake", {"code": "1"})])
def test_a_training_that_fails_by_itself_or_is_too_large_ends_its_point_and_is_not_repeated(
    tiny_store: Path, tmp_path: Path, reason: str, facts: dict[str, object]
) -> None:
    planted = Planted.open(search_of(seeds=1), ground_of(tiny_store, tmp_path))
    end(planted, State.FAILED, reason, **facts)
    planted.train()
    assert planted.queue.history().record(0).reason == reason
    again = Planted.open(search_of(seeds=1), ground_of(tiny_store, tmp_path))
    assert again.growth.has_ended
    with pytest.raises(Exhausted):
        again.growth.next_training()


def test_a_search_whose_last_record_finds_no_space_is_not_over(tiny_store: Path, tmp_path: Path) -> None:
    def confirm() -> None:
        if any(tmp_path.glob("sweeps/planted/study.journal")) and is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    is_full = False
    search = search_of(trials=2, seeds=1)
    planted = Planted.open(search, ground_of(tiny_store, tmp_path), writer=Writer(confirm=confirm))
    planted.train(most=1)
    is_full = True
    with pytest.raises(OSError, match="No space"):
        planted.train()
    assert not planted.growth.has_ended
    again = Planted.open(search, ground_of(tiny_store, tmp_path))
    assert again.growth.has_ended
    assert read_history(again.points.folder).best == again.queue.history().best != ()


def test_a_result_that_was_removed_is_trained_again_without_a_second_word_to_the_study(
    tiny_store: Path, tmp_path: Path
) -> None:
    planted = Planted.open(search_of(trials=2, seeds=1), ground_of(tiny_store, tmp_path))
    planted.train()
    history = planted.queue.history()
    removed = planted.points.plan.cells[0]
    planted.points.ground.results.trial(removed.identity).result_path(removed.evaluation).unlink()
    again = Planted.open(search_of(trials=3, seeds=1), ground_of(tiny_store, tmp_path))
    again.train()
    assert again.trained[0] == removed.key
    assert again.queue.history().records[:2] == history.records


def test_a_point_whose_settings_exclude_each_other_has_failed(tiny_store: Path, tmp_path: Path) -> None:
    layers = {"backbone.n_layers": replace(search_of().space["mask.shape"], options=(2, 11))}
    planted = Planted.open(search_of(space=layers, sampler="grid", seeds=1), ground_of(tiny_store, tmp_path))
    planted.train()
    states = {record.point.settings["backbone.n_layers"]: record.state for record in planted.queue.history().records}
    assert states == {11: "complete", 2: "failed"}

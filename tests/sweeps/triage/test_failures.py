"""Failures as values and their groups: pure functions."""

import json
from pathlib import Path

import pytest

from mucon.errors import InputError, Problem
from storage.failpoints import VARIABLE, FailpointError, reach
from sweeps.service.triage.failures import Failed, Failure, group_failures, without_names
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder


def failure_of(error: Exception) -> Failure:
    try:
        raise error
    except type(error) as raised:
        return Failure.of(raised)


def failed(number: int, error: Failure | None, reason: str = "", state: State = State.FAILED) -> Failed:
    return Failed(
        identity=f"{number:016x}", name=f"row, split 1, seed {number}", state=state, reason=reason, failure=error
    )


def test_a_failure_has_the_deepest_frame_of_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "failure.of.a.test:1:raise")
    try:
        reach("failure.of.a.test")
    except FailpointError as error:
        found = Failure.of(error)
    assert (found.exception, found.file, found.function) == ("FailpointError", "storage/failpoints.py", "_fail")
    assert found.line > 0
    assert Failure.recorded(json.loads(json.dumps({"failure": found.to_dict()}))) == found
    outside = failure_of(KeyError("x"))
    assert (outside.file, outside.line, outside.function) == ("", 0, "")


def test_a_failure_says_no_secret_and_has_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "TOPSECRETPW")
    message = failure_of(ValueError("sent TOPSECRETPW to\n \x1b[31mred " + "x" * 1000)).message
    assert "TOPSECRETPW" not in message
    assert message.isprintable()
    assert len(message) == 300


@pytest.mark.parametrize("value", [None, {}, {"exception": 1}, [], "x"])
def test_a_record_of_an_earlier_version_or_another_shape_has_no_failure(value: object) -> None:
    assert Failure.recorded({"failure": value}) is None
    assert Failure.recorded(None) is None


def test_failures_are_grouped_by_cause_frame_and_message_without_names() -> None:
    one, two = (failure_of(ValueError(f"video 'v{i}' of /data/x{i}.npy has {i}.5 frames")) for i in (1, 2))
    other = failure_of(ValueError("no frames"))
    groups = group_failures([failed(1, one), failed(2, other), failed(3, two), failed(3, two)])
    assert [group.trials for group in groups] == [(f"{1:016x}", f"{3:016x}"), (f"{2:016x}",)]
    assert [group.cause for group in groups] == ["ValueError", "ValueError"]
    assert (groups[0].example, groups[0].message) == ("row, split 1, seed 1", one.message)


def test_failures_with_a_reason_alone_are_grouped_by_it() -> None:
    reasons = [f"its worker process died 3 times: The actor {i:032x} died at 10.0.0.{i}" for i in (1, 2)]
    (group,) = group_failures(failed(i, None, reason) for i, reason in enumerate(reasons))
    assert len(group.trials) == 2
    assert (group.cause, group.where, group.message) == ("", "", reasons[0])


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes"), "out of memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out of GPU memory"),
        (OSError(28, "No space left on device"), "disk full"),
        (InputError(Problem(rule="mismatch", place="/s", value="a", expected="b")), "store missing or changed"),
        (InputError(Problem(rule="version", place="/s", value=3, expected="2")), "other version"),
        (ModuleNotFoundError("No module named 'x'"), "other version"),
        (ValueError("a room too small, in the gloom of a broom"), "ValueError"),
    ],
)
def test_known_causes_have_a_name_and_a_hint(error: Exception, cause: str) -> None:
    (group,) = group_failures([failed(1, failure_of(error))])
    assert group.cause == cause
    assert bool(group.hint) == (cause != "ValueError")


def test_trials_that_diverged_at_other_videos_are_one_group() -> None:
    failures = [failure_of(ArithmeticError(f"diverged at {video!r}")) for video in ("a", "b")]
    (group,) = group_failures(failed(i, one, state=State.DIVERGED) for i, one in enumerate(failures))
    assert (group.cause, len(group.trials)) == ("diverged", 2)


def test_names_are_left_out_and_words_are_kept() -> None:
    assert without_names("row 'a', 3 of 4 in /tmp/x y (deadbeef01)") == "row …, … of … in … y (…)"
    assert without_names("loss became NaN") == "loss became NaN"


def test_a_trial_elsewhere_is_named_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ResultsFolder.at(Path("results")).argument("ab") == "ab"
    assert ResultsFolder.at(Path("other results")).argument("ab") == f"'{tmp_path}/other results/trials/ab'"

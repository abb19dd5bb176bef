"""Environment and source of a trial: clean and modified working copies, and none."""

import dataclasses
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from sweeps.service.run.worker import run_trial
from sweeps.service.track.content.records import artifacts, read_record
from sweeps.service.trials.folder import State
from sweeps.service.trials.provenance import MAX_PATCH_BYTES, Source, changed_files, find_source
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.trial_folders import write_trial
from tests.sweeps import small


def working_copy(place: Path) -> Path:
    """A repository with a module of ours."""
    (place / "mucon").mkdir()
    (place / "mucon" / "masks.py").write_text("one = 1\n")
    git(place, "init", "--quiet")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "all")
    return place


def git(place: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    return subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_changes_and_unknown_modules_of_a_working_copy_are_recorded(tmp_path: Path) -> None:
    place = working_copy(tmp_path)
    clean = find_source(place)
    assert clean == Source(git(place, "rev-parse", "HEAD"))
    assert clean.facts() == {"git_commit": clean.commit, "git_changed": False}

    (place / "mucon" / "masks.py").write_text("one = 1\ntwo = 2\n")
    (place / "mucon" / "unknown.py").write_text("")
    changed = find_source(place)
    assert changed.patch.startswith(b"diff --git a/mucon/masks.py b/mucon/masks.py")
    assert b"\n+two = 2\n" in changed.patch
    assert changed.facts() == {
        "git_commit": clean.commit,
        "git_changed": True,
        "git_diff_sha256": hashlib.sha256(changed.patch).hexdigest(),
        "git_diff_bytes": len(changed.patch),
        "git_untracked": ["mucon/unknown.py"],
    }
    git(place, "stash", "--quiet")
    subprocess.run(["git", "apply"], cwd=place, input=changed.patch, check=True)
    assert find_source(place) == changed

    shutil.rmtree(place / ".git")
    assert find_source(place) == Source()
    assert Source().facts() == {}


def test_the_files_between_two_commits_are_known_where_both_are(tmp_path: Path) -> None:
    place = working_copy(tmp_path)
    first = git(place, "rev-parse", "HEAD")
    (place / "mucon" / "new.py").write_text("x = 1\n")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "more")
    second = git(place, "rev-parse", "HEAD")
    assert changed_files(first, second, place) == ["mucon/new.py"]
    for unknown in ("f" * 40, "--output=x", ""):
        assert changed_files(first, unknown, place) == []


def test_a_long_patch_is_truncated_with_a_note_and_a_clean_source_has_none(tmp_path: Path) -> None:
    path = tmp_path / "source.patch"
    Source("c", b"x" * (MAX_PATCH_BYTES + 10)).write_patch(path)
    patch, _, note = path.read_bytes().partition(b"\n")
    assert patch == b"x" * MAX_PATCH_BYTES
    assert note.startswith(b"#")
    assert {str(MAX_PATCH_BYTES).encode(), str(MAX_PATCH_BYTES + 10).encode()} <= set(note.split())
    Source("c", b"short").write_patch(path)
    assert path.read_bytes() == b"short"
    Source("c").write_patch(path)
    assert not path.exists()


def test_a_trial_records_command_patch_environment_and_data_for_the_tracking_server(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial = small.make_trial(tiny_store, training__epochs=1)
    results = ResultsFolder(tmp_path)
    command = "python sweeps/mine.py --seeds 'one two'"
    run_trial(trial, results, device="cpu", command=command)
    folder = results.trial(trial.identity)
    (environment,) = (record for record in small.journals(tmp_path)[trial.identity] if record["kind"] == "environment")
    assert environment["command"] == command
    assert {"python", "packages", "host", "device", "device_name", "threads", "numerics"} <= set(environment)
    patch = folder.patch_path
    assert patch.exists() == ("git_diff_sha256" in environment)
    Source("c", b"a change").write_patch(patch)
    reading = results.reading(trial.identity)
    assert (patch, "") in artifacts(reading)
    record = read_record(reading)
    assert record is not None
    assert record.tags["environment.command"] == environment["command"]
    assert record.params["seed"] == str(trial.config.seed)
    assert reading.trial["data"] == {"dim": 6, "dtype": "float32"}
    profile = json.loads(record.data.profile)
    assert (profile["fingerprint"], profile["dim"], profile["dtype"]) == (trial.data_fingerprint, 6, "float32")
    (tensor,) = json.loads(json.loads(record.data.schema)["mlflow_tensorspec"]["features"])
    assert tensor == {"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 6]}}
    before = patch.read_bytes()
    run_trial(small.make_trial(tiny_store, training__epochs=1, decoding__length_prior="none"), results, device="cpu")
    assert patch.read_bytes() == before, "a later evaluation does not change the patch of the training"


def test_the_data_of_a_trial_are_recorded_once_its_store_can_be_opened(tiny_store: Path, tmp_path: Path) -> None:
    trial = small.make_trial(tiny_store, training__epochs=1)
    results = ResultsFolder(tmp_path)
    gone = dataclasses.replace(trial, store=str(tmp_path / "gone"))
    assert run_trial(gone, results, device="cpu").state is State.FAILED
    before = results.reading(trial.identity).trial
    record = read_record(results.reading(trial.identity))
    assert record is not None
    assert (record.state, record.data.schema, "data" in before) == (State.FAILED, "", False)
    assert run_trial(trial, results, device="cpu").state is State.FINISHED
    assert results.reading(trial.identity).trial == {**before, "data": {"dim": 6, "dtype": "float32"}}


def test_artifacts_that_lead_out_of_the_trials_folder_are_not_sent(tmp_path: Path) -> None:
    folder = write_trial(tmp_path / "results")
    before = artifacts(TrialReading(folder))
    private = tmp_path / "private"
    private.write_text("secret")
    (folder.checkpoint_path / "more.json").symlink_to(private)
    folder.training_path.unlink(missing_ok=True)
    folder.training_path.symlink_to(private)
    after = artifacts(TrialReading(folder))
    assert (folder.checkpoint_path, "checkpoint") in before
    assert after == [one for one in before if one[0] not in (folder.checkpoint_path, folder.training_path)]

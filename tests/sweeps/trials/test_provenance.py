"""Where a trial ran and from which source: a working copy of its own, clean, changed and without git."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from sweeps.service.run.worker import run_trial
from sweeps.service.track.records import artifacts, read_record
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.provenance import MAX_PATCH, Source, find_source
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


def test_a_long_patch_is_cut_and_says_so_and_a_clean_source_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "source.patch"
    Source("c", b"x" * (MAX_PATCH + 10)).write_patch(path)
    assert (
        path.read_bytes() == b"x" * MAX_PATCH + f"\n# cut: the first {MAX_PATCH} of {MAX_PATCH + 10} bytes\n".encode()
    )
    Source("c", b"short").write_patch(path)
    assert path.read_bytes() == b"short"
    Source("c").write_patch(path)
    assert not path.exists()


def test_a_trial_keeps_command_patch_and_environment_and_tells_the_tracking_server(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial = small.make_trial(tiny_store, training__epochs=1)
    run_trial(trial, tmp_path, device="cpu", command="python sweeps/mine.py --seeds 'one two'")
    folder = TrialFolder(tmp_path / "trials" / trial.identity)
    (environment,) = (record for record in small.journals(tmp_path)[trial.identity] if record["kind"] == "environment")
    assert environment["command"] == "python sweeps/mine.py --seeds 'one two'"
    assert {"python", "packages", "host", "device", "device_name", "threads", "numerics"} <= set(environment)
    patch = folder.path / "source.patch"
    assert patch.exists() == ("git_diff_sha256" in environment)
    Source("c", b"a change").write_patch(patch)
    assert (patch, "") in artifacts(folder)
    record = read_record(folder)
    assert record is not None
    assert record.tags["environment.command"] == environment["command"]
    assert record.params["seed"] == str(trial.config.seed)
    assert trial.data_fingerprint in record.data.profile
    before = patch.read_bytes()
    run_trial(small.make_trial(tiny_store, training__epochs=1, decoding__length_prior="none"), tmp_path, device="cpu")
    assert patch.read_bytes() == before, "what evaluates later has not made the weights"

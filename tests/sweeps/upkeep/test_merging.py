"""What `mucon-sweeps merge` takes, keeps beside, skips and refuses."""

import json
import shutil
from pathlib import Path

import pytest

from sweeps.service.cli import main
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.sweep_folder import Rerun, SweepInfo, hold, read_sweep, write_sweep
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials import journal, lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.merging import Step, content_of, merge_trials, sources_of, workspace
from sweeps.service.upkeep.merging_sweeps import merge_sweeps
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import EVALUATION, evaluate_later, write_trial

OTHER = "f" * 16


@pytest.fixture
def there(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(tmp_path / "there")


@pytest.fixture
def here(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(tmp_path / "here")


def merged(there: ResultsFolder, here: ResultsFolder) -> list[Step]:
    with workspace(here, dry_run=False) as incoming:
        return list(merge_trials(there, here, incoming, dry_run=False))


def verdicts(there: ResultsFolder, here: ResultsFolder) -> list[str]:
    before = files(there.path)
    steps = [str(step.verdict) for step in merged(there, here)]
    assert files(there.path) == before, "the source does not change"
    return steps


def files(path: Path) -> dict[str, bytes]:
    """The content of a directory without leases."""
    found = [file for file in path.rglob("*") if file.is_file() and not file.name.startswith("lease-")]
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def rewrite(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_unknown_trials_are_copied_without_leases_and_known_ones_are_skipped(
    there: ResultsFolder, here: ResultsFolder
) -> None:
    first, second = write_trial(there.path), write_trial(there.path, shape="bell", status="stopped")
    with lease.acquire(first.path) or pytest.fail("free"):
        pass
    (first.path / ".result.json.77").write_text("unfinished")
    assert verdicts(there, here) == ["copied", "copied"]
    (first.path / ".result.json.77").unlink()
    assert files(here.path / "trials") == files(there.path / "trials")
    assert str(here.reading(second.identity).state()[0]) == "stopped"
    rewrite(first.result_path(EVALUATION), evaluate_seconds=99.0, seconds={"full": 9.0})
    assert verdicts(there, here) == ["same", "same"], "durations are no bits"
    assert not [path for path in (here.path / "incoming").iterdir() if not path.name.startswith("lease-")]


def test_an_unfinished_trial_gives_way_to_one_that_is_further_and_its_journal_is_kept(
    there: ResultsFolder, here: ResultsFolder
) -> None:
    ours = write_trial(here.path, epochs=1, status="failed", reason="no cake")
    written = ours.journal_path.read_bytes()
    theirs = write_trial(there.path)
    assert verdicts(there, here) == ["replaced"]
    kept = files(ours.path)
    assert kept.pop("journal.jsonl.replaced-1") == written
    assert kept == files(theirs.path)
    assert verdicts(there, here) == ["same"]
    shutil.rmtree(theirs.path)
    write_trial(there.path, epochs=1, status="stopped")
    assert verdicts(there, here) == ["behind"]


def test_further_evaluations_are_added_and_the_first_stays_the_first(there: ResultsFolder, here: ResultsFolder) -> None:
    ours, theirs = write_trial(here.path), write_trial(there.path)
    evaluate_later(theirs, OTHER, "alignment", {"beam": 10}, 0.6)
    assert verdicts(there, here) == ["extended"]
    reading = here.reading(ours.identity)
    assert list(reading.results) == [EVALUATION, OTHER]
    assert [result["first"] for result in reading.results.values()] == [True, False]
    assert [r["evaluations"] for r in reading.records if r["kind"] == "merge"] == [[OTHER]]
    assert verdicts(there, here) == ["same"]


@pytest.mark.parametrize("part", ["weights", "scores"])
def test_other_bits_under_one_identity_are_kept_twice_and_named(
    there: ResultsFolder, here: ResultsFolder, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = write_trial(here.path), write_trial(there.path)
    if part == "weights":
        rewrite(theirs.training_path, weights_sha256="1" * 64)
    else:
        rewrite(theirs.result_path(EVALUATION), scores={"full": {"mof": 0.1}})
    before = files(ours.path)
    line = ["merge", str(there.path), "--into", str(here.path)]
    assert main(arguments=line) == 3
    out = capsys.readouterr().out
    (place,) = (here.path / "conflicts").iterdir()
    assert str(place) in out
    assert files(place) == files(theirs.path)
    assert main(arguments=line) == 3
    assert len(list((here.path / "conflicts").iterdir())) == 1
    assert files(ours.path) == before
    assert [folder.identity for folder in here.trials()] == [ours.identity]


def test_damaged_foreign_and_linked_trials_are_refused_and_the_others_go_on(
    there: ResultsFolder, here: ResultsFolder
) -> None:
    shapes = ("box", "bell", "trapezoid")
    good, damaged, newer = (write_trial(there.path, shape=shape) for shape in shapes)
    linked, renamed = (write_trial(there.path, shape=shape, overlap=0.1) for shape in shapes[:2])
    damaged.training_path.write_text("{")
    rewrite(newer.trial_path, format_version=99)
    (linked.path / "passwords").symlink_to("/etc/passwd")
    renamed.path.rename(renamed.path.with_name("0" * 16))
    (there.path / "trials" / "..x").mkdir()
    steps = {step.name: step for step in merged(there, here)}
    assert {name: str(step.verdict) for name, step in steps.items()} == {
        good.identity: "copied",
        **dict.fromkeys((damaged.identity, newer.identity, linked.identity, "0" * 16), "refused"),
    }
    assert str(damaged.training_path) in steps[damaged.identity].detail
    assert [folder.identity for folder in here.trials()] == [good.identity]


def test_trials_that_a_process_holds_are_skipped(there: ResultsFolder, here: ResultsFolder) -> None:
    held_there, held_here = write_trial(there.path), write_trial(there.path, shape="bell")
    here.trial(held_here.identity).path.mkdir(parents=True)
    with (
        lease.acquire(held_there.path) or pytest.fail("free"),
        lease.acquire(here.trial(held_here.identity).path) or pytest.fail("free"),
    ):
        assert [str(step.verdict) for step in merged(there, here)] == ["busy", "busy"]
    assert verdicts(there, here) == ["copied", "copied"]


def test_a_trial_of_format_1_is_converted_in_its_copy(there: ResultsFolder, here: ResultsFolder) -> None:
    folder = write_trial(there.path)
    folder.result_path(EVALUATION).rename(folder.path / "result.json")
    folder.predictions_path(EVALUATION).rename(folder.path / "predictions")
    folder.training_path.unlink()
    shutil.rmtree(folder.path / "evaluations")
    assert verdicts(there, here) == ["copied"]
    assert here.trial(folder.identity).result_path(EVALUATION).exists()
    content = content_of(here.trial(folder.identity))
    assert content is not None
    assert list(content.evaluations) == [EVALUATION]
    assert verdicts(there, here) == ["same"]
    assert not files(here.path / "incoming")


def planted(results: ResultsFolder, rows: str) -> Plan:
    variants = tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate(rows))
    shape = Experiment(name="one", title="One", label_titles=("Row",), variants=variants)
    plan = make_sweep(results.path, shape, lambda *_: 0.5, n_seeds=1)
    rerun = Rerun(sweep="/elsewhere/one.yaml", words=(), folder="/elsewhere")
    info = SweepInfo(name="one", title="One", command="the command", config={}, rerun=rerun)
    write_sweep(plan.results, info, "mucon", plan.rows)
    return plan


def sweeps(there: ResultsFolder, here: ResultsFolder) -> list[str]:
    with workspace(here, dry_run=False) as incoming:
        return [str(step.verdict) for step in merge_sweeps(there, here, incoming, dry_run=False)]


def test_equal_sweeps_become_one_and_others_of_the_same_name_are_kept_beside(
    there: ResultsFolder, here: ResultsFolder
) -> None:
    planted(there, "ab")
    (there.sweep("one") / "runs.json").write_text("{}")
    (there.sweep("one") / "one.html").write_text("of the last run")
    (there.sweep("one") / "index.html").write_text("of the run that goes on")
    for results in (here, there):
        with hold(results, "one"):
            assert sweeps(there, here) == ["busy"]
    assert sweeps(there, here) == ["copied"]
    record = read_sweep(here.sweep("one"))
    assert record is not None
    assert (record.sweep.rerun, record.shipped) == (None, {})
    assert not (here.sweep("one") / "runs.json").exists()
    assert (here.sweep("one") / "one.html").exists()
    assert not (here.sweep("one") / "index.html").exists(), "it would show a running sweep for ever"
    assert sweeps(there, here) == ["same"]
    added = {"rows": {**record.rows, OTHER: "c"}, "labels": {"c": {"Row": "c"}}}
    rewrite(there.sweep("one") / "sweep.json", **added, created="2000-01-01T00:00:00Z")
    assert sweeps(there, here) == ["extended"]
    extended = read_sweep(here.sweep("one"))
    assert extended is not None
    assert (extended.rows[OTHER], extended.created) == ("c", "2000-01-01T00:00:00Z")
    assert extended.sweep.labels == added["labels"]
    shutil.rmtree(there.path)
    other = planted(there, "abc")
    for page in ("one.html", "index.html"):
        (there.sweep("one") / page).write_text("of a sweep that has ended")
    assert sweeps(there, here) == ["copied"]
    assert (here.sweep("one-2") / "index.html").exists()
    assert sweeps(there, here) == ["same"]
    assert [path.name for path in here.sweeps("plan.json")] == ["one", "one-2"]
    assert len(read_plan(here, "one-2").cells) == len(other.cells)
    (there.sweep("one") / "plan.json").write_text("{")
    assert sweeps(there, here) == ["refused"]


def test_what_is_no_results_folder_and_a_second_merge_are_refused(there: ResultsFolder, here: ResultsFolder) -> None:
    write_trial(there.path)
    with refused("missing", place=str(here.path), n=2):
        sources_of([here.path, here.path], there)
    with refused("conflict", place=str(there.path)):
        sources_of([there.path], there)
    with workspace(here, dry_run=False), refused("busy", place=str(here.path)), workspace(here, dry_run=False):
        pass


def test_a_dry_run_writes_nothing_and_the_document_has_every_step(
    there: ResultsFolder, here: ResultsFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(there, "a")
    folder = write_trial(there.path)
    line = ["merge", str(there.path), "--into", str(here.path), "--json"]
    assert main(arguments=[*line, "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["format_version"], shown["dry_run"]) == (1, True)
    assert {"name": folder.identity, "source": str(there.path), "verdict": "copied", "detail": ""} in shown["trials"]
    assert [step["verdict"] for step in shown["sweeps"]] == ["copied"]
    assert not here.path.exists()


def test_a_journal_that_ends_without_trial_json_is_a_trial_that_has_not_begun(
    there: ResultsFolder, here: ResultsFolder
) -> None:
    folder = TrialFolder(there.path / "trials" / OTHER)
    with journal.Journal(folder.journal_path) as written:
        written.status("failed", reason="its worker process died", host="h", pid=1)
    assert verdicts(there, here) == ["copied"]

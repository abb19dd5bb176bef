"""`mucon-sweeps compare`: trained trials of two rows, a run beside them, and planted results."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mucon.commands.history import STARTS
from mucon.config import TrainConfig
from mucon.export.folder import finished, write
from storage import open_store
from sweeps.service.cli import main
from sweeps.service.compare.comparison import Comparison, compare
from sweeps.service.compare.differences import KINDS
from sweeps.service.compare.entrants import Entrant, entrant
from sweeps.service.compare.page import make_page
from sweeps.service.compare.terminal import lines
from sweeps.service.plan.plan import make_plan
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_models import planted
from tests.helpers.refusals import refused
from tests.sweeps import small

ROWS: dict[str, dict[str, Any]] = {"smooth": {"loss.smoothing": 0.3}, "short": {"training.epochs": 1}}


@pytest.fixture(scope="module")
def trained(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultsFolder, dict[str, list[str]]]:
    """Two rows with two seeds each; row -> identities."""
    results = ResultsFolder(tmp_path_factory.mktemp("compare") / "results")
    shape = Experiment(
        name="two",
        title="Two rows",
        label_titles=("Row",),
        variants=tuple(Variant(labels=(row,), settings=own) for row, own in ROWS.items()),
        columns=(Column(metric="mof"),),
    )
    settings = {path: value for path, value in small.TINY.items() if path != "training.epochs"}
    plan, trials = make_plan(
        shape,
        store=tiny_store,
        base=lambda *_: TrainConfig().override("training.epochs", 3),
        settings=settings,
        seeds=(1, 2),
        splits=("1",),
        results=results,
    )
    plan.write()
    rows: dict[str, list[str]] = {}
    for cell in plan.cells:
        run_trial(trials[cell.key], results, device="cpu")
        rows.setdefault(cell.variant.name, []).append(cell.identity)
    return results, rows


def compared(results: ResultsFolder, *texts: str, **options: Any) -> Comparison:
    return compare([entrant(results, text, **options) for text in texts], "mof")


def test_rows_and_trials_differ_in_settings_before_seeds_and_beside_the_spread_of_their_seeds(
    trained: tuple[ResultsFolder, dict[str, list[str]]],
) -> None:
    results, rows = trained
    found = compared(results, "two:smooth", "two:short", rows["smooth"][0])
    differ = [(one.kind, one.what, one.values) for one in found.differences]
    assert differ == [
        ("settings", "loss.smoothing", ("0.3", "0.1", "0.3")),
        ("settings", "training.epochs", ("3", "1", "3")),
        ("seed", "seed", ("1, 2", "1, 2", "1")),
    ]
    by_seed = [of for entrant in found.entrants[:2] for of in entrant.seeds.values()]
    means = [sum(row["full"]["mof"] for row in of) / 3 for of in by_seed]
    mof = found.pairs[0].noise["mof"]
    assert mof.difference == pytest.approx((means[2] + means[3] - means[0] - means[1]) / 2)
    assert [(one.n, one.low, one.high) for one in mof.spreads] == [
        (2, pytest.approx(min(of)), pytest.approx(max(of))) for of in (means[:2], means[2:])
    ]
    deviation = sum((a - b) ** 2 / 4 for a, b in (means[:2], means[2:])) ** 0.5
    assert mof.limit == pytest.approx(4.302653 * deviation)  # Student's t, 2 degrees of freedom
    assert len(found.pairs[1].noise["mof"].spreads) == 1  # both are of one row


def test_a_run_is_scored_as_its_trial_was(trained: tuple[ResultsFolder, dict[str, list[str]]], tmp_path: Path) -> None:
    results, rows = trained
    identity = rows["smooth"][0]
    run = str(results.trial(identity).checkpoint_path)
    found = compared(results, identity, run)
    assert [(one.kind, one.what) for one in found.differences] == [("machine", "environment")]
    line = '{"host": "elsewhere", "numerics": 0, "git_commit": null}\n{"host"'  # and an unfinished one
    shutil.copytree(run, tmp_path / "run" / "checkpoint")
    (tmp_path / "run" / STARTS).write_text(line)
    of_run = compared(results, identity, str(tmp_path / "run")).differences
    differ = [(one.kind, one.what, one.values[1]) for one in of_run]
    assert {("versions", "numerics", "0"), ("machine", "host", "elsewhere")} <= set(differ)
    assert {one.outcome.adjusted_p for one in found.pairs[0].metrics} == {None}
    assert all(one.first == one.second for one in found.pairs[0].videos)
    assert found.entrants[1].first.segments("full") == found.entrants[0].segments
    assert not any(one.change for one in (*found.recalls, *found.confusions))
    both = {name: finished(results.trial(name).checkpoint_path) for name in rows["smooth"]}
    write(tmp_path / "both", both, name="both", scores=lambda _: [])
    of_both = compared(results, run, str(tmp_path / "both")).differences
    assert [(one.kind, one.what, one.values) for one in of_both] == [
        ("method", "members of an ensemble", ("1", "2")),
        ("seed", "seed", ("1", "1, 2")),
    ]


def test_a_run_is_scored_on_the_part_for_which_its_trial_was_made_or_that_is_asked_for(
    tiny_store: Path, tmp_path: Path
) -> None:
    results = ResultsFolder(tmp_path / "results")
    _, trials = make_plan(
        Experiment(name="one", title="One", label_titles=("Row",), variants=(Variant(labels=("a",)),)),
        store=tiny_store,
        base=lambda *_: TrainConfig(),
        settings=small.TINY,
        seeds=(1,),
        splits=("1",),
        results=results,
        part="validation",
    )
    (trial,) = trials.values()
    run_trial(trial, results, device="cpu")
    run = str(results.trial(trial.identity).checkpoint_path)
    found = compared(results, trial.identity, run)
    assert [(one.kind, one.what) for one in found.differences] == [("machine", "environment")]
    assert all(one.first == one.second for one in found.pairs[0].videos)
    asked = entrant(results, run, part="test").first
    assert asked.trial["part"] == "test"
    assert {row["id"] for row in asked.result["per_video"]} == set(open_store(tiny_store).split("1", "test"))


def test_the_command_writes_a_page_with_bars_and_prints_json(
    trained: tuple[ResultsFolder, dict[str, list[str]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, rows = trained
    page = tmp_path / "why.html"
    line = ["compare", rows["smooth"][0], rows["short"][0], "--results", str(results.path)]
    assert main(arguments=[*line, "--html", str(page), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["format_version"], value["pairs"][0]["comparable"]) == (1, True)
    assert {one["metric"] for one in value["pairs"][0]["metrics"]} >= {"mof", "edit"}
    text = page.read_text(encoding="utf-8")
    assert "ground truth" in text
    assert text.count("<svg role") == 1
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_scores_on_other_recordings_are_not_comparable() -> None:
    videos = {f"v{i}": 0.5 + 0.01 * i for i in range(8)}
    first = planted("a", videos)
    other = planted("b", {**{id: value + 0.1 for id, value in videos.items() if id != "v0"}, "new": 0.9})
    found = compare([first, other], "mof")
    assert found.differences[0].kind == KINDS[0] == "recordings"
    (pair,) = found.pairs
    assert pair.recordings is not None
    assert (pair.recordings.added, pair.recordings.removed, pair.n_common) == (("new",), ("v0",), 7)
    assert pair.metrics[0].first == pytest.approx(0.54)
    assert any(line.startswith("NOT COMPARABLE") for line in lines(found))
    for stranger in (planted("c", {"x": 0.1}), planted("c", videos, task="alignment")):
        (pair,) = compare([first, stranger], "mof").pairs
        assert (pair.n_common, pair.metrics) == (0, ())
        assert not pair.is_comparable
    assert not found.to_dict()["pairs"][0]["comparable"]


def test_other_labels_of_the_same_recordings_and_times_are_not_comparable() -> None:
    videos = dict.fromkeys("vwx", 0.5)
    entrants = [planted(name, videos, true_frames={"p": n}) for name, n in (("a", 10), ("b", 11))]
    (pair,) = compare(entrants, "mof").pairs
    assert (pair.recordings, pair.same_labels, pair.is_comparable) == (None, False, False)
    assert compare([entrants[0], entrants[0]], "mof").pairs[0].is_comparable
    with refused("unsupported", place="--metric", value="training_seconds", n=1):
        compare(entrants, "training_seconds")


def test_p_is_adjusted_over_the_tests_of_all_models() -> None:
    videos = {f"v{i}": 0.3 + 0.01 * i for i in range(6)}
    others = [planted(name, {id: value + 0.1 for id, value in videos.items()}) for name in "bcd"]
    found = compare([planted("a", videos), *others], "mof")
    assert [one.outcome.adjusted_p for pair in found.pairs for one in pair.metrics] == [3 / 32] * 3


def test_damaged_segments_leave_the_page_without_bars(
    trained: tuple[ResultsFolder, dict[str, list[str]]], tmp_path: Path
) -> None:
    whole, rows = trained
    copy = ResultsFolder(tmp_path / "results")
    shutil.copytree(whole.path, copy.path)
    (path,) = copy.path.glob(f"trials/{rows['short'][0]}/evaluations/*/predictions/full.json")
    value = json.loads(path.read_text())
    value["videos"]["video_06"]["lengths"].pop()
    path.write_text(json.dumps(value))
    found = compared(copy, rows["smooth"][0], rows["short"][0])
    with refused("damaged", place=str(path), n=1):
        found.entrants[1].segments  # noqa: B018
    page = make_page(found)
    assert str(path) in page
    assert "<svg role" not in page
    path.unlink()
    assert "segmentation of B" in make_page(compared(copy, rows["smooth"][0], rows["short"][0]))


def test_models_with_other_predictions_are_compared() -> None:
    videos = {f"v{i}": 0.5 + 0.01 * i for i in range(8)}
    first, other = planted("a", videos), planted("b", {id: value + 0.1 for id, value in videos.items()})
    rows = [{"id": row["id"], "n_frames": 50, "frames": row["full"]} for row in other.first.result["per_video"]]
    frames = replace(other, prediction="frames", trainings=(replace(other.first, result={"per_video": rows}),))
    (metric,) = compare([first, frames], "mof").pairs[0].metrics
    assert metric.second - metric.first == pytest.approx(0.1)


def test_actions_are_ordered_by_their_change() -> None:
    def with_actions(name: str, confusion: list[list[int]]) -> Entrant:
        recall = {action: row[i] / sum(row) for i, (action, row) in enumerate(zip("pq", confusion, strict=True))}
        return planted(name, {"v": 0.5}, recall={"full": recall}, confusion={"full": confusion}, true_frames={"p": 10})

    found = compare([with_actions("a", [[9, 1], [4, 6]]), with_actions("b", [[8, 2], [1, 9]])], "mof")
    assert [(one.action, one.values) for one in found.recalls] == [("q", (0.6, 0.9)), ("p", (0.9, 0.8))]
    assert [(one.true, one.predicted, one.change) for one in found.confusions] == [("q", "p", -3), ("p", "q", 1)]
    assert found.confusions[0].shares == (0.4, 0.1)
    others = compare([with_actions("a", [[9, 1], [4, 6]]), planted("b", {"v": 0.5})], "mof").confusions
    assert [(one.shares, one.change) for one in others] == [((0.1, None), None), ((0.4, None), None)]


def test_what_cannot_be_compared_is_refused(trained: tuple[ResultsFolder, dict[str, list[str]]]) -> None:
    results, rows = trained
    for text, options, value in (
        ("two:smoth", {}, "smoth"),
        ("two:smooth", {"split": "2"}, "2"),
        ("nothing", {}, "nothing"),
    ):
        with refused("unknown", value=value, n=1):
            entrant(results, text, **options)
    with refused("unknown", place=rows["short"][0], value="x", n=1):
        entrant(results, rows["short"][0], "x")


def test_seeds_without_a_result_are_listed(trained: tuple[ResultsFolder, dict[str, list[str]]], tmp_path: Path) -> None:
    whole, rows = trained
    copy = ResultsFolder(tmp_path / "results")
    shutil.copytree(whole.path, copy.path)
    (path,) = copy.path.glob(f"trials/{rows['short'][1]}/evaluations/*/result.json")
    value = json.loads(path.read_text())
    value["confusion"]["full"][0] = "torn"
    path.write_text(json.dumps(value))
    for text in ("two:short", rows["short"][0]):
        found = entrant(copy, text)
        assert (list(found.seeds), list(found.without), len(found.trainings)) == ([1], [2], 1)
    with refused("damaged", place=str(path), n=1):
        entrant(copy, rows["short"][1])
    found = compared(copy, "two:short", rows["smooth"][0])
    assert [(one.row, one.n) for one in found.pairs[0].noise["mof"].spreads] == [("two: smooth, split 1", 2)]
    shutil.rmtree(path.parent)
    assert entrant(copy, "two:short").without == {2: "missing"}


def test_code_packages_and_machine_follow_in_this_order() -> None:
    def trained_by(name: str, version: str, host: str, *files: str) -> Entrant:
        one = planted(name, {"v": 0.5})
        patch = "".join(f"diff --git a/{file} b/{file}\n" for file in files)
        more = {"ray": "2"} if name == "a" else {}  # a run records fewer packages than a trial
        packages = {"numpy": "2", "torch": version, **more}
        environment = {"git_commit": "f" * 40, "host": host, "packages": packages}
        return replace(one, trainings=(replace(one.first, environment=environment, patch=patch),))

    found = compare([trained_by("a", "2.1", "one"), trained_by("b", "2.2", "two", "mucon/masks.py")], "mof")
    assert [(one.kind, one.what, one.values) for one in found.differences] == [
        ("code", "changed files", ("[]", '["mucon/masks.py"]')),
        ("packages", "torch", ("2.1", "2.2")),
        ("machine", "host", ("one", "two")),
    ]

"""The command line's wrong inputs: one line for each problem on the error stream, exit status 2, nothing begun."""

import socket
import sys
from pathlib import Path

import pytest

from mucon.errors import InputError
from sweeps.ablation_masks import EXPERIMENT
from sweeps.qualitative import EXPERIMENT as BARS
from sweeps.service.cli import main
from sweeps.service.run.resources import Resources, resources
from sweeps.service.spec.rows import only_rows
from tests.sweeps import small
from tests.sweeps.conftest import Finished


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The problems with which the mask ablation is refused."""
    assert main(EXPERIMENT, words) == 2
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    return lines


@pytest.fixture
def on_store(tiny_store: Path, tmp_path: Path) -> list[str]:
    return ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--device", "cpu"]


def test_an_unknown_setting_is_refused_with_the_nearest_names(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = refused(capsys, *on_store, "--set", "mask.shap=box")
    assert "'mask.shap' is not a setting (did you mean 'mask.shape'" in line


def test_a_value_of_the_wrong_type_and_a_setting_without_value_are_refused(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = refused(capsys, *on_store, "--set", "training.learning_rate=fast")
    assert "training.learning_rate is a finite number, not 'fast'" in line
    (line,) = refused(capsys, *on_store, "--set", "training.learning_rate")
    assert "--set takes KEY=VALUE, 'training.learning_rate' has no '='" in line


def test_rows_that_become_one_trial_are_refused(capsys: pytest.CaptureFixture[str], on_store: list[str]) -> None:
    lines = refused(capsys, *on_store, "--set", "mask.shape=box")
    assert len(lines) == 4
    assert "'box, no' and 'bell, no' become the same with --set mask.shape=box" in lines[0]


def test_a_store_or_a_split_that_is_not_there_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    (line,) = refused(capsys, "--store", str(tmp_path / "nowhere"), "--results", str(tmp_path / "results"))
    assert str(tmp_path / "nowhere") in line
    (line,) = refused(capsys, *on_store, "--split", "9")
    assert "1:train" in line
    assert "9:train" in line


def test_a_trial_that_fits_on_no_machine_is_refused_instead_of_waiting_for_ever(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = refused(capsys, *on_store, "--cpus-per-trial", "4096")
    assert "a trial must fit on a machine, one of 4096 CPU and 0 GPU does not" in line
    (line,) = refused(capsys, *on_store, "--gpus-per-trial", "many")
    assert "--gpus-per-trial is a number of at least 0 or auto, not 'many'" in line


def test_a_tracking_address_that_is_none_or_does_not_answer_is_refused_before_training(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    (line,) = refused(capsys, *on_store, "--tracking-uri", "mlruns")
    assert "'mlruns' is none of them" in line
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    (line,) = refused(capsys, *on_store, "--tracking-uri", f"http://127.0.0.1:{port}")
    assert f"the one at http://127.0.0.1:{port} does not" in line
    assert not (tmp_path / "results" / "trials").exists()


def test_a_results_folder_that_cannot_be_written_is_refused(
    capsys: pytest.CaptureFixture[str], tiny_store: Path, tmp_path: Path
) -> None:
    (tmp_path / "results").write_text("a file")
    (line,) = refused(capsys, "--store", str(tiny_store), "--results", str(tmp_path / "results"))
    assert f"trials are written to the results folder, {tmp_path / 'results'} cannot be written" in line


def test_a_dry_run_names_every_cell_and_starts_nothing(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    assert main(EXPERIMENT, [*on_store, "--seeds", "2", "--epochs", "3", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("  missing   " in line for line in lines) == 12
    assert any(line.endswith("missing   trapezoid, 10 %, split 1, seed 2") for line in lines)
    assert not list((tmp_path / "results").iterdir())


def test_some_rows_can_be_run_alone_under_a_name_of_their_own(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    (line,) = refused(capsys, *on_store, "--rows", "box, no", "bel, no")
    assert "--rows takes rows of ablation_masks, 'bel, no' is none (did you mean 'bell, no'" in line
    (line,) = refused(capsys, *on_store, "--name", "../mine")
    assert "a sweep's name is letters, digits" in line
    words = [*on_store, "--seeds", "1", "--rows", "bell, no", "box, no", "--name", "two-shapes", "--dry-run"]
    assert main(EXPERIMENT, words) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("two-shapes: Impact of mask generation")
    assert [line.split(maxsplit=2)[2] for line in shown.splitlines() if "  missing   " in line] == [
        "box, no, split 1, seed 1",
        "bell, no, split 1, seed 1",
    ]


def test_of_a_collection_the_tables_that_have_the_rows_are_left() -> None:
    found = only_rows(BARS, ["full", "weak"])
    assert [[row.name for row in table.variants] for table in found.experiments] == [["weak", "full"], ["full"]]
    assert [table.name for table in only_rows(BARS, ["frames"]).experiments] == ["qualitative_predictions"]
    (table,) = only_rows(BARS, ["qualitative_predictions: full", "qualitative_predictions: frames"]).experiments
    assert [row.name for row in table.variants] == ["frames", "full"]
    (table,) = only_rows(BARS, ["qualitative_supervision"]).experiments
    assert len(table.variants) == 3
    with pytest.raises(InputError, match=r"'qualitative_predictions: ful' is none \(did you mean"):
        only_rows(BARS, ["qualitative_predictions: ful"])
    with pytest.raises(InputError, match=r"'ablation_masks' is none"):
        only_rows(EXPERIMENT, ["ablation_masks"])


@pytest.mark.service
def test_a_dry_run_says_what_is_known_already(capsys: pytest.CaptureFixture[str], finished_sweep: Finished) -> None:
    assert main(EXPERIMENT, [*finished_sweep.command[2:], "--seeds", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.count("  finished  ") == 6
    assert out.count("  missing   ") == 6


def test_the_experiments_are_listed_and_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(None, ["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ablation_masks: Impact of mask generation (box, no; bell, no;") for line in lines)
    assert main(None, ["run", "ablation_mask"]) == 2
    assert "(did you mean 'ablation_masks'" in capsys.readouterr().err


def test_a_report_of_a_sweep_that_never_ran_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(None, ["report", "ablation_masks", "--results", str(tmp_path)]) == 2
    assert f"'ablation_masks' has none in {tmp_path} (there: no sweep)" in capsys.readouterr().err


def test_the_module_and_the_script_have_the_same_options() -> None:
    programs = ([str(small.MASKS)], ["-m", "sweeps", "run", "ablation_masks"])
    ran = [small.run([sys.executable, *program, "--help"]) for program in programs]
    script, module = (run.stdout.partition("options:")[2] for run in ran)
    assert script == module
    assert "--gpus-per-trial" in script


@pytest.mark.parametrize(
    ("cpus", "gpus", "n_gpus", "each"),
    [
        ("auto", "auto", 0, Resources(cpus=1, gpus=0)),
        ("auto", "auto", 1, Resources(cpus=2, gpus=0.25)),
        ("auto", "0", 1, Resources(cpus=1, gpus=0)),
        ("4", "1", 2, Resources(cpus=4, gpus=1)),
    ],
)
def test_resources_are_what_was_told_and_shared_gpus_by_default(
    cpus: str, gpus: str, n_gpus: int, each: Resources
) -> None:
    assert resources(cpus, gpus, n_gpus=n_gpus) == each


@pytest.mark.parametrize(
    ("each", "nodes", "slots"),
    [
        (Resources(cpus=1, gpus=0), {"a": (2, 0)}, 2),
        (Resources(cpus=0.5, gpus=0), {"a": (2, 0), "b": (3, 0)}, 10),
        (Resources(cpus=2, gpus=0.25), {"a": (16, 1)}, 4),
        (Resources(cpus=2, gpus=0.25), {"a": (4, 1), "b": (64, 0)}, 2),
        (Resources(cpus=1, gpus=0.4), {"a": (16, 2)}, 4),
        (Resources(cpus=1, gpus=2), {"a": (16, 5)}, 2),
    ],
)
def test_slots_are_what_fits_on_each_machine(
    each: Resources, nodes: dict[str, tuple[float, float]], slots: int
) -> None:
    assert each.slots(nodes) == slots

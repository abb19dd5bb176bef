"""Wrong command lines: one line per problem on the error stream, exit status 2, nothing started."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.ablation_masks import EXPERIMENT
from sweeps.qualitative import EXPERIMENT as BARS
from sweeps.service.cli import main, parser
from sweeps.service.commands.options import experiment_names, is_tracking
from sweeps.service.run.executor import ray_environment
from sweeps.service.run.executor.ray_environment import check_ray_folder, new_ray_folder
from sweeps.service.run.resources import Resources, resources
from sweeps.service.spec.rows import only_rows
from tests.helpers.refusals import refused
from tests.sweeps import small
from tests.sweeps.conftest import Finished

COMMANDS = next(list(action.choices) for action in parser()._actions if isinstance(action.choices, dict))


def error_lines(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The lines with which a command line of the mask ablation is refused, without `error: `."""
    assert main(EXPERIMENT, words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    return [line.removeprefix("error: ") for line in lines]


@pytest.fixture
def on_store(tiny_store: Path, tmp_path: Path) -> list[str]:
    return ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--device", "cpu"]


def test_an_unknown_setting_is_refused_with_the_nearest_names(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = error_lines(capsys, *on_store, "--set", "mask.shap=box")
    assert line.startswith("mask.shap: ")
    assert "'mask.shape'" in line


def test_a_value_of_the_wrong_type_and_a_setting_without_value_are_refused(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = error_lines(capsys, *on_store, "--set", "training.learning_rate=fast")
    assert line.startswith("training.learning_rate: ")
    assert line.endswith("got 'fast'")
    (line,) = error_lines(capsys, *on_store, "--set", "training.learning_rate")
    assert line.startswith("--set: ")
    assert line.endswith("got 'training.learning_rate'")


def test_an_unknown_recipe_is_refused_and_a_known_one_is_under_the_rows(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = error_lines(capsys, *on_store, "--recipe", "breakfst")
    assert "recipe: " in line
    assert all(word in line for word in ("'breakfst'", "'breakfast'"))
    assert main(EXPERIMENT, [*on_store, "--recipe", "demo", "--seeds", "1", "--dry-run"]) == 0
    assert "recipe demo, 6 rows, 1 seeds" in capsys.readouterr().out


def test_rows_that_become_one_trial_are_refused(capsys: pytest.CaptureFixture[str], on_store: list[str]) -> None:
    lines = error_lines(capsys, *on_store, "--set", "mask.shape=box")
    assert len(lines) == 4
    assert all(line.startswith("ablation_masks: ") for line in lines)
    assert all(word in lines[0] for word in ("'box, no'", "'bell, no'", "--set mask.shape=box", "--rows"))


def test_a_missing_store_or_split_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    (line,) = error_lines(capsys, "--store", str(tmp_path / "nowhere"), "--results", str(tmp_path / "results"))
    assert str(tmp_path / "nowhere") in line
    (line,) = error_lines(capsys, *on_store, "--split", "9")
    assert "1:train" in line
    assert "9:train" in line


def test_a_trial_that_fits_on_no_machine_is_refused_instead_of_waiting_forever(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    (line,) = error_lines(capsys, *on_store, "--cpus-per-trial", "4096")
    assert "4096" in line
    assert "--cpus-per-trial" in line
    (line,) = error_lines(capsys, *on_store, "--gpus-per-trial", "many")
    assert line.startswith("--gpus-per-trial")
    assert "'many'" in line


def test_a_tracking_address_that_is_unsupported_or_does_not_answer_is_refused_before_training(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    (line,) = error_lines(capsys, *on_store, "--tracking-uri", "mlruns")
    assert "'mlruns'" in line
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    (line,) = error_lines(capsys, *on_store, "--tracking-uri", f"http://127.0.0.1:{port}")
    assert f"http://127.0.0.1:{port}" in line
    assert not (tmp_path / "results" / "trials").exists()


def test_tracking_is_on_unless_the_option_or_the_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUCON_TRACKING", raising=False)
    assert is_tracking(None)
    assert not is_tracking("off")
    monkeypatch.setenv("MUCON_TRACKING", "off")
    assert not is_tracking(None)
    assert is_tracking("on")
    monkeypatch.setenv("MUCON_TRACKING", "no")
    with refused("unknown", place="MUCON_TRACKING", value="no"):
        is_tracking(None)
    with refused("conflict", place="--tracking-uri"):
        is_tracking("off", "http://127.0.0.1:5000")


def test_a_results_folder_that_cannot_be_written_is_refused(
    capsys: pytest.CaptureFixture[str], tiny_store: Path, tmp_path: Path
) -> None:
    (tmp_path / "results").write_text("a file")
    (line,) = error_lines(capsys, "--store", str(tiny_store), "--results", str(tmp_path / "results"))
    assert line.startswith("--results: ")
    assert str(tmp_path / "results") in line
    assert (tmp_path / "results").read_text() == "a file"


def test_what_ray_and_the_disk_need_is_looked_at_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", f"/tmp/{'t' * 60}")
    (line,) = error_lines(capsys, *on_store)
    assert line.startswith("RAY_TMPDIR: ")
    assert "36" in line
    assert not (tmp_path / "results" / "sweeps").exists()
    monkeypatch.delenv("RAY_TMPDIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("t" * 100)))
    check_ray_folder()
    folder = Path(str(new_ray_folder()))
    assert len(str(folder)) <= 36
    assert folder.stat().st_mode & 0o077 == 0
    folder.rmdir()
    monkeypatch.setattr(ray_environment, "LEAST_FREE_BYTES", 2**80)
    with refused("unwritable", place="RAY_TMPDIR", n=1):
        check_ray_folder()


def test_an_output_that_its_reader_has_closed_does_not_end_the_work() -> None:
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "sweeps", "list"]
    ran = subprocess.run(
        line, stdout=write, stderr=subprocess.PIPE, env=small.environment(), cwd=small.ROOT, check=False
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_dry_run_names_every_cell_and_starts_nothing(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    assert main(EXPERIMENT, [*on_store, "--seeds", "2", "--epochs", "3", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("  missing   " in line for line in lines) == 12
    assert any(line.endswith("missing   trapezoid, 10 %, split 1, seed 2") for line in lines)
    assert [line.split()[0] for line in lines[-2:]] == ["context", "segments:"]
    assert not (tmp_path / "results").exists()


def test_a_dry_run_with_a_rule_for_seeds_names_the_least_ones_and_estimates_the_most(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    words = [*on_store, "--rows", "box, no", "bell, no", "--epochs", "3", "--price", "2", "--dry-run"]
    assert main(EXPERIMENT, [*words, "--seeds", "auto:2..4", "--until", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("  missing   " in line for line in lines) == 4
    assert [" 8 trainings" in line and "cost" in line for line in lines if line.startswith("at most")] == [True]
    assert not (tmp_path / "results").exists()


def test_a_rule_for_seeds_needs_a_range_and_rows_to_compare(
    capsys: pytest.CaptureFixture[str], on_store: list[str]
) -> None:
    for words in (["--seeds", "auto:4..2"], ["--seeds", "auto:2..4", "--rows", "bell, no", "trapezoid, no"]):
        (line,) = error_lines(capsys, *on_store, *words)
        assert line.startswith("--seeds: ")
    for words in (["--until", "1"], ["--seeds", "3", "--until", "1"], ["--seeds", "auto:2..4", "--until", "0"]):
        (line,) = error_lines(capsys, *on_store, *words)
        assert line.startswith("--until: ")


def test_results_are_not_written_into_a_store(capsys: pytest.CaptureFixture[str], tiny_store: Path) -> None:
    for results in (tiny_store, tiny_store / "results"):
        (line,) = error_lines(capsys, "--store", str(tiny_store), "--results", str(results))
        assert line.startswith("--results: ")
    assert not (tiny_store / "results").exists()


def test_some_rows_can_be_run_alone_under_another_name(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    (line,) = error_lines(capsys, *on_store, "--rows", "box, no", "bel, no")
    assert line.startswith("--rows: ")
    assert all(word in line for word in ("'bel, no'", "'bell, no'"))
    (line,) = error_lines(capsys, *on_store, "--name", "../mine")
    assert line.startswith("--name: ")
    assert line.endswith("got '../mine'")
    words = [*on_store, "--seeds", "1", "--rows", "bell, no", "box, no", "--name", "two-shapes", "--dry-run"]
    assert main(EXPERIMENT, words) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"two-shapes: {EXPERIMENT.title}\n")
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
    with refused("unknown", place="--rows", value="qualitative_predictions: ful", n=1) as refusal:
        only_rows(BARS, ["qualitative_predictions: ful", "weak"])
    assert "'qualitative_predictions: full'" in refusal.problems[0].message
    with refused("unknown", place="--rows", value="ablation_masks", n=2):
        only_rows(EXPERIMENT, ["ablation_masks", "box"])


@pytest.mark.service
def test_a_dry_run_reports_finished_cells(capsys: pytest.CaptureFixture[str], finished_sweep: Finished) -> None:
    assert main(EXPERIMENT, [*finished_sweep.command[2:], "--seeds", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.count("  finished  ") == 6
    assert out.count("  missing   ") == 6


def test_the_experiments_are_listed_and_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(None, ["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == experiment_names()
    assert f"ablation_masks: {EXPERIMENT.title} ({'; '.join(row.name for row in EXPERIMENT.variants)})" in lines
    assert main(None, ["run", "ablation_mask"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ablation_mask: ")
    assert "'ablation_masks'" in error


def test_a_report_of_a_sweep_that_never_ran_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(None, ["report", "ablation_masks", "--results", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path}: ")
    assert "'ablation_masks'" in error


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
def test_resources_are_the_given_ones_and_shared_gpus_by_default(
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


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_shows_an_example_and_its_prose_fits_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stopped:
        main(None, [*command.split(), "--help"])
    assert stopped.value.code == 0
    prose, _, example = capsys.readouterr().out.partition("\nexample: ")
    assert example.startswith(f"mucon-sweeps {command}".strip())
    assert max(map(len, prose.splitlines())) <= 80


def test_the_options_of_a_sweep_are_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(EXPERIMENT, ["--help"])
    groups = [block.splitlines() for block in capsys.readouterr().out.split("\n\n")]
    sizes = [sum(line.startswith("  -") for line in lines) for lines in groups]
    assert sum(sizes) >= 20
    assert max(sizes) <= 10


def test_a_file_as_a_results_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words in (["status"], ["gc"], ["rm", "one"], ["history", "1/1/1"], ["merge", str(tmp_path)]):
        option = "--into" if words[0] == "merge" else "--results"
        with refused("type", str(tmp_path / "file")):
            options = parser().parse([*words, option, str(tmp_path / "file")])
            options.run(options)


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(None, ["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("mucon-sweeps ")


def test_a_damaged_trial_does_not_stop_the_plan_of_the_others(
    capsys: pytest.CaptureFixture[str], on_store: list[str], tmp_path: Path
) -> None:
    words = [*on_store, "--seeds", "1", "--epochs", "2", "--dry-run"]
    assert main(EXPERIMENT, words) == 0
    identity = next(line.split()[0] for line in capsys.readouterr().out.splitlines() if "  missing   " in line)
    for content in (b"\0\0", b'{"format_version": 2, "config": {"training": []}}'):
        folder = tmp_path / "results" / "trials" / identity
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trial.json").write_bytes(content)
        assert main(EXPERIMENT, words) == 0
        states = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines() if "seed 1" in line}
        assert len(states) == 6
        assert states[identity] in ("damaged", "missing")


@pytest.mark.parametrize("command", ["history", "status", "report", "stop", "logs", "debug"])
def test_a_name_that_is_too_long_for_a_file_is_unknown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    assert main(arguments=[command, "a" * 300, "--results", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1

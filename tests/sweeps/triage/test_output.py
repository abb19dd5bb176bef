"""What a trial's process prints is kept, also that of native code that ends the process."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from storage.failpoints import VARIABLE
from storage.fencing import SupersededError, Writer
from sweeps.service.run.executor.verdicts import mark_failed
from sweeps.service.run.worker import run_trial
from sweeps.service.triage.failures import Failure
from sweeps.service.triage.log import output_lines
from sweeps.service.triage.output import KEPT_BYTES, MOST_BYTES, collect, kept_output, redirected, tail
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from tests.sweeps import small

CRASHES = (
    "import sys, pathlib, faulthandler; faulthandler.enable(); from sweeps.service.run.worker import run_trial; "
    "from tests.sweeps import small; from sweeps.service.trials.results_folder import ResultsFolder; "
    "trial = small.make_trial(pathlib.Path(sys.argv[1])); "
    "run_trial(trial, ResultsFolder(pathlib.Path(sys.argv[2])), device='cpu', keep_output=True)"
)


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    path = ResultsFolder(tmp_path).trial("a" * 16)
    path.path.mkdir(parents=True)
    return path


def test_what_the_process_and_its_children_print_goes_to_the_log_and_nowhere_else(
    folder: TrialFolder, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "TOPSECRETPW")
    raw = ResultsFolder(tmp_path).output(folder.identity)
    with kept_output(folder, raw):
        os.write(1, b"native \x1b[31mcode\n")
        subprocess.run([sys.executable, "-c", "print('a child', flush=True)"], check=True)
        os.write(2, b"with TOPSECRETPW\r50 %\n")
        assert output_lines(folder) == ["native \\x1b[31mcode", "a child", "with ***", "50 %"], "while it runs"
        assert not folder.log_path.exists()
    os.write(1, b"after\n")
    assert capfd.readouterr() == ("after\n", "")
    assert folder.log_path.read_text().splitlines() == ["native \\x1b[31mcode", "a child", "with ***", "50 %"]
    assert not raw.exists()
    with kept_output(folder, raw):
        os.write(1, b"second attempt\n")
    assert output_lines(folder)[-2:] == ["50 %", "second attempt"]


def test_a_warning_is_shown_in_each_trial_of_a_process(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(2):
            with redirected(tmp_path / "raw"):
                for _ in range(2):
                    warnings.warn("odd", UserWarning, stacklevel=1)
    assert len(shown) == 2, "once in each trial"


def test_the_log_keeps_the_last_part_and_whole_lines(folder: TrialFolder, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for attempt in range(3):
        raw.write_text("".join(f"line {attempt} {i}\n" for i in range(KEPT_BYTES // 20)))
        collect(folder, raw)
    kept = folder.log_path.read_text().splitlines()
    assert folder.log_path.stat().st_size <= KEPT_BYTES
    assert kept[-1] == f"line 2 {KEPT_BYTES // 20 - 1}"
    assert all(line.startswith("line ") for line in kept)


def test_the_output_of_a_running_trial_is_bounded(folder: TrialFolder, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    with redirected(raw):
        os.write(1, b"x" * 79 + b"\n")
        for _ in range(MOST_BYTES // 80):
            os.write(1, b"y" * 79 + b"\n")
        small.wait_until(lambda: raw.stat().st_size <= KEPT_BYTES)
        os.write(1, b"last\n")
    assert tail(raw).splitlines()[-1] == "last"
    assert "x" not in tail(raw)


def test_a_process_that_has_lost_the_trial_changes_nothing_of_its_log(folder: TrialFolder, tmp_path: Path) -> None:
    def lost() -> None:
        raise SupersededError

    raw = tmp_path / "raw"
    with kept_output(TrialFolder(folder.path, Writer(number=1, confirm=lost)), raw):
        os.write(1, b"from the past\n")
    assert not folder.log_path.exists()
    assert raw.read_text() == "from the past\n"


def test_a_folder_that_cannot_be_written_does_not_stop_the_trial(folder: TrialFolder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with kept_output(folder, tmp_path / "file" / "raw"):
        pass
    assert not folder.log_path.exists()


def test_what_native_code_prints_when_it_ends_the_process_is_in_the_log_and_names_the_failure(
    tiny_store: Path, tmp_path: Path
) -> None:
    trial, results = small.make_trial(tiny_store), ResultsFolder(tmp_path)
    line = [sys.executable, "-c", CRASHES, str(tiny_store), str(tmp_path)]
    ran = small.run(line, **{VARIABLE: f"sweeps.worker.begun.{trial.identity}:1:abort"})
    assert ran.returncode < 0
    assert mark_failed(trial, results, "it died").state is State.FAILED
    reading = results.reading(trial.identity)
    assert any(line.startswith("Fatal Python error") for line in reading.folder.log_path.read_text().splitlines())
    failure = Failure.recorded(reading.last_status)
    assert failure is not None
    assert (failure.exception, failure.message, failure.file) == ("crash", "Aborted", "storage/failpoints.py")
    assert run_trial(trial, results, device="cpu", keep_output=True).state is State.FINISHED
    assert "Aborted" in reading.folder.log_path.read_text(), "the output of an earlier attempt is kept"

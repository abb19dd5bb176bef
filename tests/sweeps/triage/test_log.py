"""`logs` and `debug` on trial directories that no training has made, on terminals, files and closed pipes."""

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sweeps.service.cli import main, parser
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.triage.log import follow, journal_lines, log_lines
from sweeps.service.triage.status import sweep_status
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.journal import Journal
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.refusals import refused
from tests.helpers.trial_folders import START, append, append_status, write_trial
from tests.sweeps import small

LABEL = "[/b] [bold]\\ 日本 [link=x]"
HOSTILE = "[/b] [bold]\\ \x1b[31mred\x1b[0m\r\nnext 日本 [link=x]"


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    return write_trial(tmp_path, epochs=3, status="failed", reason="no cake")


SHAPE = Experiment(
    name="hostile",
    title=LABEL,
    label_titles=("Row",),
    variants=(Variant(labels=(LABEL,), settings={}),),
    columns=(Column(metric="mof"),),
)


def plant(results: Path) -> ResultsFolder:
    """A sweep with hostile names and reasons; seed 1 has failed, seed 2 is lost."""
    unfinished = {(LABEL, "1", 1): Unfinished("failed", HOSTILE), (LABEL, "1", 2): Unfinished("running")}
    planted = make_sweep(results, SHAPE, lambda *_: 0.5, n_seeds=3, unfinished=unfinished)
    for trial in planted.tracked.folders:
        trial.log_path.write_text(HOSTILE)
        trial.traceback_path.write_text(HOSTILE)
    return planted.results


def test_a_journal_is_readable_and_a_damaged_line_hides_no_other(folder: TrialFolder) -> None:
    lines = journal_lines(folder)
    assert [("epoch" in line, "loss" in line) for line in lines[2:5]] == [(True, True)] * 3
    assert all(word in lines[3] for word in ("epoch 2/3", "loss 1.5"))
    assert "no cake" in lines[-1]
    append(folder, {"kind": "background", "timestamp": START, "text": "background: 39 %"})
    append(folder, {"kind": "merge", "at": START, "evaluations": ["ab"]})
    lines += journal_lines(folder)[-2:]
    assert lines[-2].endswith("  background: 39 %")
    assert "ab" in lines[-1]
    assert lines[-1][:19] == lines[-2][:19]
    content = folder.journal_path.read_bytes().splitlines(keepends=True)
    folder.journal_path.write_bytes(b"".join([*content[:3], b"\0\0\0\n", *content[3:]]))
    assert journal_lines(folder)[:-1] == lines
    assert "line 4" in journal_lines(folder)[-1]


def test_a_sweep_without_failures_has_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_sweep(tmp_path, SHAPE, lambda *_: 0.5, n_seeds=1)
    assert main(None, ["logs", "hostile", "--results", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "hostile" in line


def test_the_last_lines_of_each_part_are_shown(folder: TrialFolder) -> None:
    folder.traceback_path.write_text("one\ntwo\nKeyError: 3\n")
    folder.log_path.write_text("first\nlast\n")
    lines = list(log_lines(folder, 1))
    assert [line for line in lines if not line.startswith("---")][1:] == ["KeyError: 3", "last"]
    assert "no cake" in lines[0]


def test_following_shows_what_is_added_until_no_process_runs_the_trial(tmp_path: Path) -> None:
    folder = write_trial(tmp_path, epochs=1, status="running")
    raw = ResultsFolder(tmp_path).output(folder.identity)
    raw.parent.mkdir(parents=True)
    held = lease.acquire(folder.path) or pytest.fail("free")
    steps = iter(range(2, 5))

    def wait() -> bool:
        step = next(steps)
        with Journal(folder.journal_path) as journal:
            journal.epoch(step, {"loss.total": 0.5})
        with raw.open("a") as file:
            file.write(f"printed {step}\n")
        if step == 4:
            held.release()
        return True

    shown = list(follow(folder, (), wait))
    assert [line.partition("  ")[2] for line in shown if "epoch" in line] == [
        f"epoch {step}/1  loss 0.5000" for step in (2, 3, 4)
    ]
    assert [line for line in shown if "printed" in line] == ["printed 2", "printed 3", "printed 4"]
    assert list(follow(folder, (), lambda: pytest.fail("it has ended"))) == []


def test_a_trial_that_has_not_begun_is_waited_for_while_its_sweep_runs(tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    folder, sweeps = results.trial("a" * 16), [results.running("one")]
    assert list(follow(folder, sweeps, lambda: pytest.fail("no sweep runs"))) == []
    held = lease.acquire(results.running("one")) or pytest.fail("free")

    def wait() -> bool:
        with Journal(folder.journal_path) as journal:
            journal.status("finished", reason=None, host="h", pid=1)
        held.release()
        return True

    assert ["finished" in line for line in follow(folder, sweeps, wait)] == [True]


def test_a_reader_that_goes_away_ends_the_following(tmp_path: Path) -> None:
    folder = write_trial(tmp_path, epochs=1, status="running")
    with lease.acquire(folder.path) or pytest.fail("free"):
        assert list(follow(folder, (), lambda: False)) == []


def test_json_has_all_parts(folder: TrialFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.traceback_path.write_text("KeyError: 3\n")
    assert main(None, ["logs", folder.identity, "--json", "--results", str(tmp_path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    (trial,) = shown["trials"]
    assert (shown["format_version"], trial["identity"], trial["output"]) == (1, folder.identity, [])
    assert trial["traceback"] == ["KeyError: 3"]
    assert len(trial["journal"]) == 6


@pytest.mark.parametrize(
    ("words", "rule", "place"),
    [
        (["hostile", "--follow"], "conflict", "--follow"),
        (["hostile", "--lines", "0"], "range", "--lines"),
        (["hostile", "--follow", "--json"], "conflict", "--follow"),
        (["nothing"], "unknown", ""),
    ],
)
def test_a_wrong_command_line_is_refused(tmp_path: Path, words: list[str], rule: str, place: str) -> None:
    plant(tmp_path)
    options = parser().parse(["logs", *words, "--results", str(tmp_path)])
    with refused(rule, place):
        options.run(options)


def test_a_trial_that_has_not_started_is_not_debugged(tmp_path: Path) -> None:
    plant(tmp_path)
    options = parser().parse(["debug", f"{LABEL}/1/2", "--results", str(tmp_path)])
    with refused("state", "trials"):
        options.run(options)


COMMANDS = """
import sys
from sweeps.service.cli import main
where = ["--results", sys.argv[1]]
for words in (["status"], ["status", "hostile"], ["status", "hostile", "--watch"], ["status", "--why", sys.argv[2]],
              ["logs", "hostile"], ["logs", sys.argv[2]], ["logs", sys.argv[2], "--follow"], ["debug", sys.argv[2]]):
    print("status", words[0], main(None, [*words, *where]), flush=True)
"""


def test_hostile_names_and_reasons_are_printed_as_they_are_on_a_terminal(tmp_path: Path) -> None:
    results = plant(tmp_path)
    failed = next(cell.identity for cell in sweep_status(results, "hostile").cells if cell.has_failed)
    ours, theirs = pty.openpty()
    line = [sys.executable, "-c", COMMANDS, str(tmp_path), failed]
    environment = {name: value for name, value in small.environment(TERM="xterm").items() if name != "COLUMNS"}
    process = subprocess.Popen(line, stdout=theirs, stderr=theirs, stdin=theirs, cwd=small.ROOT, env=environment)
    os.close(theirs)
    content = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the last process has closed the terminal
            break
        if not more:
            break
        content += more
    os.close(ours)
    assert process.wait(120) == 0
    text = content.decode()
    assert "Traceback" not in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("status ")] == list("33330002")
    assert "\x1b[31m" not in text
    words = " ".join(text.split())
    assert "[/b] [bold]\\ \\x1b[31mred" in words
    assert LABEL in words


def test_a_reader_that_closes_the_output_ends_a_watch_and_a_follower_without_an_error(tmp_path: Path) -> None:
    results = plant(tmp_path)
    folder = write_trial(tmp_path, status="running")
    program = "import sys; from sweeps.service.cli import main; sys.exit(main(None, sys.argv[1:]))"
    for words in (["status", "hostile", "--watch", "0.05"], ["logs", folder.identity, "--follow"]):
        with lease.acquire(results.running("hostile")) or pytest.fail("free"), lease.acquire(folder.path) as held:
            assert held is not None
            line = [sys.executable, "-c", program, *words, "--results", str(tmp_path)]
            process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=small.ROOT)
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            added = threading.Event()
            while words[0] == "logs" and process.poll() is None and not added.wait(0.1):
                append_status(folder, "running", 1)
            assert process.wait(120) in (0, 3)
            assert process.stderr.read() == b""

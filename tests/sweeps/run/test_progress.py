"""Progress of a running sweep, in a file and on a terminal."""

import io
import re
from dataclasses import replace

from rich.console import Console

from sweeps.service.plan.cells import Cell
from sweeps.service.run.progress import LINE_SECONDS, Progress
from sweeps.service.run.worker import Outcome
from sweeps.service.spec.columns import Variant
from sweeps.service.trials.folder import State

CELLS = {
    key: Cell(variant=Variant(labels=(row,)), split="1", seed=1, identity=f"identity of {key}", evaluation="e")
    for key, row in (("a", "box"), ("b", "bell"), ("c", "trapezoid"))
}
ENDED = [
    "0:00 [1/3] box, split 1, seed 1 finished",
    "0:00 [2/3] bell, split 1, seed 1 failed: ValueError: [no] cake",
]


def show(console: Console, every: float = LINE_SECONDS) -> None:
    with Progress(console, CELLS, every=every) as progress:
        progress.epoch("a", {"epoch": 2, "epochs": 30, "loss.total": 1.25, "seconds": 20.0})
        progress.epoch("b", {"epoch": 5, "epochs": 30, "loss.total": 0.6, "seconds": 5.0, "progress.full.mof": 0.432})
        progress.epoch("b", {"epoch": 7, "epochs": 30, "loss.total": 0.5, "seconds": 7.0})
        progress.ended("a", Outcome(State.FINISHED))
        progress.ended("b", Outcome(State.FAILED, "ValueError: [no] cake"))
        progress.ended("c", Outcome(State.MISSING))


def test_a_file_gets_a_plain_line_for_each_trial_that_ended() -> None:
    file = io.StringIO()
    show(Console(file=file, width=80))
    assert file.getvalue().splitlines() == ENDED


def test_a_terminal_shows_the_running_trials_with_epoch_loss_accuracy_and_time_left() -> None:
    file = io.StringIO()
    show(Console(file=file, width=100, force_terminal=True))
    shown = file.getvalue()
    for text in ("box, split 1, seed 1", "2/30", "1.2500", "7/30", "0.5000", "[2/3] bell, split 1, seed 1 failed"):
        assert text in shown
    tables = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", table) for table in shown.split("trials")]
    rows = {line.split(",")[0].strip("│ "): line for line in tables[3].splitlines() if "seed 1" in line}
    assert re.split(r"\s*│\s*", rows["box"])[2:6] == ["2/30", "1.2500", "–", "4:40"]
    assert re.split(r"\s*│\s*", rows["bell"])[2:6] == ["7/30", "0.5000", "43.2 %", "0:23"]
    assert tables[3].startswith(" about 4:40 left")


def test_a_name_that_looks_like_markup_is_shown_as_it_is_written() -> None:
    cells = {"a": replace(CELLS["a"], variant=Variant(labels=("[/b] [red]x \x1b[31m {}",)))}
    for console in (Console(file=io.StringIO(), width=100, force_terminal=True), Console(file=io.StringIO(), width=99)):
        with Progress(console, cells, every=0.0) as progress:
            progress.epoch("a", {"epoch": 1, "epochs": 4, "loss.total": 1.0, "seconds": 30.0})
            progress.ended("a", Outcome(State.FAILED, "KeyError: [/]"))
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        assert shown.count("[/b] [red]x \\x1b[31m {}, split 1, seed 1") >= 2
        assert "KeyError: [/]" in shown
        assert "\x1b[31m" not in shown


def test_plain_lines_have_the_same_values() -> None:
    file = io.StringIO()
    show(Console(file=file, width=80), every=0.0)
    sweep, box, bell = file.getvalue().splitlines()[2].split("; ")
    assert sweep.startswith("0:00 [0/3] ")
    assert "4:40" in sweep
    assert box.startswith("box, split 1, seed 1: ")
    assert bell.startswith("bell, split 1, seed 1: ")
    assert [word for word in box.split() if word[0].isdigit() or word == "–"][2:] == ["2/30", "1.2500", "–", "4:40"]
    assert [word for word in bell.split() if word[0].isdigit()][2:] == ["7/30", "0.5000", "43.2", "0:23"]


def test_several_evaluations_of_a_training_are_one_waiting_training() -> None:
    cells = {
        f"{training}-{evaluation}": Cell(
            variant=Variant(labels=(evaluation,)), split="1", seed=1, identity=training, evaluation=evaluation
        )
        for training in ("a", "b")
        for evaluation in ("one", "two")
    }
    file = io.StringIO()
    with Progress(Console(file=file, width=80), cells, every=0.0) as progress:
        progress.epoch("a-one", {"epoch": 1, "epochs": 4, "loss.total": 1.0, "seconds": 30.0})
    assert "3:30" in file.getvalue(), "90 s for the rest of one training and 120 s for the other"


def test_a_waiting_training_needs_its_own_epochs_at_the_pace_of_the_others() -> None:
    file = io.StringIO()
    with Progress(Console(file=file, width=80), CELLS, lambda: {"identity of b": 2}, every=0.0) as progress:
        progress.epoch("a", {"epoch": 1, "epochs": 4, "loss.total": 1.0, "seconds": 30.0})
        progress.epoch("c", {"epoch": 3, "epochs": 4, "loss.total": 1.0, "seconds": 30.0})
    first, second = file.getvalue().splitlines()
    assert "about 4:30 left" in first, "90 s of one, 2 epochs of 30 s, and a third training of 120 s, one at a time"
    assert "about 1:30 left" in second, "two at a time: 90 s of one, 10 s and 2 epochs of 20 s of the other"

"""What a running sweep shows, in a file and on a terminal."""

import io

from rich.console import Console

from sweeps.service.progress import Progress
from sweeps.service.trial_folder import State
from sweeps.service.worker import Outcome

NAMES = {"a": "box, split 1, seed 1", "b": "bell, split 1, seed 1", "c": "trapezoid, split 1, seed 1"}


def told(console: Console) -> None:
    with Progress(console, NAMES) as progress:
        progress.epoch("a", {"epoch": 2, "epochs": 30, "loss.total": 1.25})
        progress.epoch("b", {"epoch": 7, "epochs": 30, "loss.total": 0.5})
        progress.ended("a", Outcome(State.FINISHED))
        progress.ended("b", Outcome(State.FAILED, "ValueError: [no] cake"))
        progress.ended("c", Outcome(State.MISSING))


def test_a_file_gets_a_plain_line_for_each_trial_that_ended() -> None:
    file = io.StringIO()
    told(Console(file=file, width=80))
    assert file.getvalue().splitlines() == [
        "0:00 [1/3] box, split 1, seed 1 finished",
        "0:00 [2/3] bell, split 1, seed 1 failed: ValueError: [no] cake",
    ]


def test_a_terminal_shows_the_running_trials_with_epoch_and_loss() -> None:
    file = io.StringIO()
    told(Console(file=file, width=80, force_terminal=True))
    shown = file.getvalue()
    for text in ("box, split 1, seed 1", "2/30", "1.2500", "7/30", "0.5000", "[2/3] bell, split 1, seed 1 failed"):
        assert text in shown

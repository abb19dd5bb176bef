"""The progress of store commands, on a terminal and elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from storage.commands import progress
from storage.commands.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def run(bar, clock, seconds, total=10, what="writing"):
    for done in range(1, total + 1):
        bar(what, done, total)
        clock[0] += seconds


def test_a_terminal_shows_a_bar_with_rate_and_time_left(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = ProgressBar()
    run(bar, clock, 0.5)
    drawn = sys.stderr.getvalue().split("\r")[1:]
    assert len(drawn) == 10
    assert "writing 5 of 10, 2/s, 2 s left" in drawn[4]
    assert drawn[4].count("#") == drawn[4].count("-") > 0
    assert drawn[-1].endswith("\n")
    run(bar, clock, 0.01, total=100, what="checking")
    drawn = sys.stderr.getvalue().split("\r")[11:]
    assert len(drawn) <= 12
    assert "checking 1 of 100" in drawn[0]
    assert "checking 100 of 100" in drawn[-1]


def test_elsewhere_a_line_is_printed_from_time_to_time(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = ProgressBar()
    run(bar, clock, 0.5)
    assert sys.stderr.getvalue() == ""
    run(bar, clock, 10.0)
    lines = ["writing 4 of 10, 0.1/s, 1 min 0 s left", "writing 7 of 10, 0.1/s, 30 s left", "writing 10 of 10, 0.1/s"]
    assert sys.stderr.getvalue().splitlines() == lines


def test_a_narrow_terminal_shows_no_bar(monkeypatch, clock):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "20")
    run(ProgressBar(), clock, 0.5)
    assert "#" not in sys.stderr.getvalue()

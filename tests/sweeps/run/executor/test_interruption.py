"""Signals that ask a sweep to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.service.run.executor import interruption
from sweeps.service.run.executor.interruption import interruptions


@pytest.fixture(autouse=True)
def hangups() -> Iterator[None]:
    """Gives SIGHUP its effect back."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def send(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def test_a_closed_terminal_and_a_signal_that_is_sent_twice_are_one_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "BURST_SECONDS", 600.0)
    stop = tmp_path / "stop"
    with interruptions(stop) as asked:
        assert not asked()
        send(signal.SIGTERM, signal.SIGTERM, signal.SIGHUP)
        assert asked()
        assert stop.exists()
    monkeypatch.setattr(interruption, "BURST_SECONDS", 0.0)
    with interruptions(tmp_path / "other"):
        send(signal.SIGHUP, signal.SIGHUP)
    send(signal.SIGHUP)  # while the report is written
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt), interruptions(stop):
        send(signal.SIGHUP, signal.SIGINT)


def test_the_first_signal_after_another_stop_request_is_the_first_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption, "BURST_SECONDS", 0.0)
    stop = tmp_path / "stop"
    stop.write_text("stopped by the budget")
    with interruptions(stop) as asked:
        assert asked()
        send(signal.SIGINT)
        assert stop.read_text() == "stopped by the budget"
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)

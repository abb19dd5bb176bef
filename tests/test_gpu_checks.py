"""`make gpu`: its checks run on a CPU when asked, and one line says so if there is no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import gpu

ROOT = Path(__file__).parents[1]


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Check -> OK or failed."""
    printed = (line.split(": ", 2) for line in capsys.readouterr().out.splitlines())
    return {name: result.strip() for name, result, figures in printed if figures}


def test_the_checks_pass_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gpu, "BITS", {"mucon": "demo"})
    names = ["device", "bits", "resident", "memory", "speed"]  # the sweep is what the tests of sweeps run
    assert gpu.main(["--device", "cpu", "--only", *names]) == 0
    assert lines(capsys) == dict.fromkeys(names, "OK")
    assert "sweep" in gpu.CHECKS


def test_other_bits_and_an_error_are_failures_and_the_other_checks_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = iter("aabaaa")
    monkeypatch.setattr(gpu, "BITS", {"mucon": "demo", "ms_tcn": "demo"})
    monkeypatch.setattr(gpu, "digest", lambda *_: next(digests))

    def broken(_: torch.device) -> tuple[bool, str]:
        raise RuntimeError("out of\nmemory")

    monkeypatch.setitem(gpu.CHECKS, "memory", broken)
    assert gpu.main(["--device", "cpu", "--only", "memory", "bits", "device"]) == 1
    assert lines(capsys) == {"memory": "failed", "bits": "failed", "device": "OK"}


def test_without_a_gpu_one_line_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "\ngpu: install\n\t$(BIN)/python benchmarks/gpu.py\n" in (ROOT / "Makefile").read_text()

"""The README's commands and its library example, run as they stand on small recordings."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_DATA = README.partition("\n## Your own data\n")[2].partition("\n## ")[0]
ACTIONS = ("SEATED", "STANDING_UP", "WALKING")


def code_blocks(language: str, text: str = OWN_DATA) -> list[str]:
    """The fenced blocks of a language, "" for those without one."""
    pieces = re.split(r"^```(.*)$", text, flags=re.MULTILINE)
    return [
        body.lstrip("\n") for fence, body in zip(pieces[1::4], pieces[2::4], strict=True) if fence.strip() == language
    ]


def commands(first_word: str, text: str = OWN_DATA) -> list[list[str]]:
    lines = "\n".join(code_blocks("", text)).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith(first_word + " ")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with DATA/tug in the field's layout: five short recordings."""
    data = tmp_path / "DATA" / "tug"
    for name in ("features", "groundTruth", "splits"):
        (data / name).mkdir(parents=True)
    random = np.random.default_rng(3)
    means = random.standard_normal((len(ACTIONS), 6))
    ids = [f"s01_0{i}" for i in range(1, 6)]
    for id in ids:
        labels = np.repeat(np.arange(len(ACTIONS)), random.integers(8, 16, len(ACTIONS)))
        features = means[labels] + 0.1 * random.standard_normal((len(labels), 6))
        np.save(data / "features" / f"{id}.npy", features.astype(np.float32))
        (data / "groundTruth" / f"{id}.txt").write_text("".join(f"{ACTIONS[label]}\n" for label in labels))
    (data / "mapping.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(ACTIONS)))
    (data / "splits" / "train.split1.bundle").write_text("".join(f"{id}.txt\n" for id in ids[:3]))
    (data / "splits" / "test.split1.bundle").write_text("".join(f"{id}.txt\n" for id in ids[3:]))
    return tmp_path


def run(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_commands_first_sweep_and_library_example_run_one_after_the_other(place: Path) -> None:
    found = commands("mucon")
    named = ["store", "store", "train", "evaluate", "predict", "evaluate", "evaluate", "predict"]
    assert [words[1] for words in found] == named
    outputs = []
    for words in found:
        done = run([sys.executable, "-m", *words], place)
        assert done.returncode == 0, (words, done.stderr)
        outputs.append(done.stdout)
    assert "5 videos" in outputs[0] + outputs[1] or re.search(r"videos\s+5", outputs[1])
    assert "full" in outputs[3]
    assert (place / "bars.png").stat().st_size > 10_000
    assert "SEATED" in outputs[4]
    assert "recall" in outputs[5]
    assert "full" in outputs[6]
    assert "3 segments" in outputs[7]

    (words,) = commands("python")
    sweep = run([sys.executable, str(ROOT / words[1]), *words[2:], "--dry-run"], place)
    assert sweep.returncode == 0, sweep.stderr
    assert sweep.stdout.count("missing") == 18

    (example,) = code_blocks("python")
    shown = run([sys.executable, "-c", example], place)
    assert shown.returncode == 0, shown.stderr
    assert 0 <= float(shown.stdout) <= 1


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    found = commands("make", README)
    assert len(found) == 2
    for words in found:
        assert f"\n{words[1]}:" in makefile

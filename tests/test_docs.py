"""Every command and every example of README and docs, run as written on small recordings."""

from __future__ import annotations

import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mucon import cli
from storage import open_store
from sweeps.service import cli as sweeps_cli
from sweeps.service.commands.options import experiment_named, experiments
from sweeps.service.commands.run import script_parser
from tests.helpers.annotation_folders import write_annotations
from tests.helpers.archive_servers import archive_of, published, released
from tests.helpers.object_stores import CREDENTIALS, S3Server
from tests.storage.helpers import write_store

ROOT = Path(__file__).resolve().parents[1]
CLUSTERS = [ROOT / "docs" / "clusters.md", *sorted((ROOT / "docs" / "clusters").glob("*.md"))]
"""Pages whose blocks marked `sh` have commands of other programs, which need a cluster."""
NAMED = ("data", "openness", "training", "models", "sweeps", "search", "results")
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in NAMED), *CLUSTERS]
OTHERS = sorted({*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"} - {*PAGES})
OUTPUTS = {
    "predicted": [".txt", ".csv"] * 5,
    "new": [".csv", ".png"] * 5,
    "labels": [".txt"] * 5,
    "subtitles": [".vtt"] * 5,
    "elan": [".tsv"] * 5,
    "some": [".json"] * 2,
    "predicted_transcripts": [".png", ".txt"] * 2,
}
"""What the pages' predictions write for five recordings."""
ACTIONS = ("SEATED", "STANDING_UP", "WALKING", "UNLABELLED")


def code_blocks(text: str, language: str = "") -> list[str]:
    """The fenced blocks of a language, those without one by default."""
    pieces = re.split(r"^```(.*)$", text, flags=re.MULTILINE)
    return [
        body.lstrip("\n") for fence, body in zip(pieces[1::4], pieces[2::4], strict=True) if fence.strip() == language
    ]


def commands(page: Path) -> list[str]:
    lines = "\n".join(code_blocks(page.read_text(encoding="utf-8"))).splitlines()
    return [line.split("   #")[0].strip() for line in lines if line.strip()]


def write_data(folder: Path, ids: Sequence[str]) -> None:
    """A dataset in the layout of MS-TCN: short recordings, of which three are for training in each of three splits."""
    for name in ("features", "groundTruth", "splits"):
        (folder / name).mkdir(parents=True)
    random = np.random.default_rng(3)
    means = random.standard_normal((len(ACTIONS), 6))
    for id in ids:
        labels = np.repeat(np.arange(len(ACTIONS)), random.integers(8, 16, len(ACTIONS)))
        features = means[labels] + 0.1 * random.standard_normal((len(labels), 6))
        np.save(folder / "features" / f"{id}.npy", features.astype(np.float32))
        (folder / "groundTruth" / f"{id}.txt").write_text("".join(f"{ACTIONS[label]}\n" for label in labels))
    (folder / "mapping.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(ACTIONS)))
    for split in range(3):
        order = [*ids[split:], *ids[:split]]
        for part, chosen in (("train", order[:3]), ("test", order[3:])):
            (folder / "splits" / f"{part}.split{split + 1}.bundle").write_text("".join(f"{id}.txt\n" for id in chosen))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with everything that the pages name and do not make themselves."""
    folder = tmp_path_factory.mktemp("docs")
    runs = ("s01_01", "s01_02", "s02_01", "s02_02", "s03_01")
    for name, ids in (("tug", runs), ("hapt", [f"exp0{i}_user0{i}" for i in range(1, 6)])):
        write_data(folder / "DATA" / name, ids)
    for block in code_blocks((ROOT / "docs" / "data.md").read_text(encoding="utf-8"), "sh"):
        subprocess.run(["bash", "-e"], input=block, text=True, cwd=folder, check=True)
    write_annotations(folder / "BREAKFAST_ANNOTATIONS", n=90)
    for page, file in (("sweeps", "smoothing.yaml"), ("search", "rate.yaml"), ("results", "choice.yaml")):
        (yaml,) = code_blocks((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), "yaml")
        (folder / file).write_text(yaml)
    server, before = S3Server(), Path.cwd()
    os.chdir(folder)
    with pytest.MonkeyPatch.context() as patched:
        variables = {"AWS_ENDPOINT_URL": server.endpoint, "MUCON_CACHE_DIR": str(folder / "cache")}
        for name, value in {**CREDENTIALS, **variables}.items():
            patched.setenv(name, value)
        yield folder
    os.chdir(before)
    server.kill()


def run(line: str) -> int:
    """Runs a command in this process; a sweep as a dry run, and a second command with the output of the first.

    Of the commands beside sweeps, `compare` is run for real.
    """
    first, _, second = line.partition(" | ")
    if second:
        given = subprocess.run(shlex.split(first), capture_output=True, check=True).stdout
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(given)))
            return run(second)
    program, *words = shlex.split(line)
    if words[:2] == ["store", "fetch"]:
        with published(archive_of(released())) as publisher:
            return cli.main([*words, "--server", publisher.address])
    if program == "mucon":
        return cli.main(words)
    if program == "mucon-sweeps":
        return sweeps_cli.main(None, words if words[0] == "compare" else [*words, "--dry-run"])
    assert program == "python", line
    experiment = importlib.import_module(words[0].removesuffix(".py").replace("/", ".")).EXPERIMENT
    return sweeps_cli.main(experiment, [*words[1:], "--dry-run"])


def test_every_command_runs_and_the_library_examples_work(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for page in PAGES for line in commands(page) if line.split()[0] != "make"]
    assert len(lines) > 20
    for line in dict.fromkeys(lines):  # a command that several pages show is run once
        assert run(line) == 0, (line, capsys.readouterr().err)
        printed = capsys.readouterr().out
        if "mucon-sweeps compare" in line:
            assert "runs/tug" in printed
        elif line.split(" | ")[-1].split()[0] != "mucon":
            assert "missing" in printed, line
        elif " predict " in line and " --out " not in line:
            assert "SEATED" in printed
    assert (place / "bars.png").stat().st_size > 10_000
    for folder, kinds in OUTPUTS.items():
        assert sorted(path.suffix for path in (place / folder).glob("s*")) == sorted(kinds), folder
    assert (place / "segments.png").stat().st_size > 10_000
    assert (place / "why.html").stat().st_size > 10_000
    for figure in ("tug", "tug_transcripts", "tug_predicted"):
        assert (place / f"{figure}.png").stat().st_size > 10_000
    for page in PAGES:
        for example in code_blocks(page.read_text(encoding="utf-8"), "python"):
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                [sys.executable, "-c", example], capture_output=True, text=True, check=False, env=environment
            )
            assert done.returncode == 0, (page, done.stderr)
            assert done.stdout.strip()


def test_features_that_pyarrow_reads_are_those_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clips = {f"s01_0{i}": np.random.default_rng(i).standard_normal((9 + i, 5)).astype(np.float16) for i in range(4)}
    store = open_store(write_store(tmp_path / "stores" / "tug", clips))
    *_, example = code_blocks((ROOT / "docs" / "openness.md").read_text(encoding="utf-8"), "python")
    found: dict[str, Any] = {}
    exec(example, found)
    assert capsys.readouterr().out.startswith("s01_01 (10, 5) float16")
    assert np.array_equal(found["features"], store.features("s01_01"))


def test_pages_without_examples_have_no_command_that_no_test_runs() -> None:
    for page in OTHERS:
        programs = {line.split()[0] for line in commands(page)}
        assert programs <= {"make"}, page


def test_commands_of_clusters_are_shell_and_name_sweeps_options_and_files_that_exist() -> None:
    for page in CLUSTERS:
        text = page.read_text(encoding="utf-8")
        for block in code_blocks(text, "sh"):
            parsed = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
            assert parsed.returncode == 0, (page, parsed.stderr)
            for line in block.replace("\\\n", " ").splitlines():
                _, found, sweep = line.partition("   #")[0].partition("python sweeps/")
                if found:
                    name, *words = shlex.split(sweep)
                    script_parser(experiment_named(name.removesuffix(".py")), None).parse(words)
        for file in re.findall(r"(?<![\w/.-])(?:sweeps|tests|docs)/[\w/-]+\.\w+", text):
            assert (ROOT / file).exists(), (page, file)


def test_named_sweeps_targets_pages_and_files_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in [*PAGES, *OTHERS]:
        text = page.read_text(encoding="utf-8")
        for script in re.findall(r"python (sweeps/\w+\.py)", text):
            assert Path(script).stem in experiments(), page
        for target in re.findall(r"`make (\w+)`|^make (\w+)", text, flags=re.MULTILINE):
            assert f"\n{target[0] or target[1]}:" in makefile, page
        for link in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (page.parent / link).exists(), (page, link)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200

"""`mucon export`: a folder with scores and checksums, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mucon
from mucon.cli import main
from mucon.export import folder as exported
from mucon.identity.checksums import CARD
from tests.helpers.commands import error_line, error_lines
from tests.helpers.exported import changed


def test_the_command_exports_scores_and_checks(run: Path, store: Path, tmp_path: Path, capsys, monkeypatch):
    target = tmp_path / "model"
    assert main(["export", str(run), str(target), "--store", str(store), "--name", "My model"]) == 0
    record = json.loads((target / exported.RECORD).read_text())
    capsys.readouterr()
    assert main(["evaluate", str(run), "--store", str(store), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {(one["prediction"], one["metric"]): one["value"] for one in record["scores"]}["full", "mof"] == (
        scores["full"]["mof"]
    )
    card = (target / CARD).read_text()
    assert card.startswith("# My model\n")
    assert scores["weights_sha256"][:16] in card
    again = tmp_path / "again"
    with monkeypatch.context() as patched:
        patched.setattr(mucon, "EVALUATION", mucon.EVALUATION + 1)  # a metric has been corrected since
        assert main(["export", str(target), str(again)]) == 0
    kept = json.loads((again / exported.RECORD).read_text())
    assert {name for name in record if record[name] != kept[name]} == {"name"}
    assert main(["export", "--check", str(target)]) == 0
    assert main(["evaluate", str(target), "--store", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == scores
    changed(target / "config.json")
    lines = ["--check", str(target)], [str(target), str(tmp_path / "third")]
    for line in (["evaluate", str(target), "--store", str(store)], *(["export", *words] for words in lines)):
        assert str(target / "config.json") in error_line(capsys, line)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ([], "RUN"),
        (["runs/x"], "DIR"),
        (["runs/x", "out", "--check", "out"], "--check"),
        (["runs/x", "out", "--split", "2"], "--split"),
        (["runs/x", "out", "--ensemble", "runs/x"], "--ensemble"),
        (["runs/x", "out"], "runs/x"),
        (["--check", "nothing"], "nothing"),
    ],
)
def test_lines_that_do_not_fit_are_refused(words: list[str], place: str, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place in error_lines(capsys, ["export", *words])[0]


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(run: Path, tmp_path: Path, capsys):
    assert "/proc/model" in error_line(capsys, ["export", str(run), "/proc/model"])

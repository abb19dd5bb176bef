"""What tables, page and files of a sweep on the validation part say of it; and the same sweep on the test part."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mucon.videos import ScoredPart
from sweeps.service.report.report import write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.best import best_lines, choice, command_lines, outcome_of
from sweeps.service.tables.standing import Standing
from tests.helpers.planted_sweeps import make_sweep

HELD_OUT = "8 of the 15 videos outside the test part, groups ann, bo & co"


def table(rows: str) -> Experiment:
    variants = tuple(Variant(labels=(row,), settings={"loss.smoothing": i}) for i, row in enumerate(rows))
    column = Column(title="MoF", metric="mof")
    return Experiment(name="planted", title="Planted", label_titles=("Row",), variants=variants, columns=(column,))


def standing_of(results: Path, part: ScoredPart, rows: str = "ab") -> Standing:
    plan = make_sweep(results, table(rows), lambda row, *_: ord(row) / 200, n_seeds=2, n_videos=8, part=part)
    return Standing.of(plan)


@pytest.mark.parametrize("part", ["test", "validation"])
def test_every_output_names_the_scored_part(tmp_path: Path, part: ScoredPart) -> None:
    standing = standing_of(tmp_path, part)
    files = write_report(standing)
    is_validation = part == "validation"
    assert pq.read_table(files["trials.parquet"])["part"].to_pylist() == [part] * 4
    latex, page, text = (files[name].read_text() for name in ("planted.tex", "planted.html", "planted.md"))
    assert (HELD_OUT in text) == is_validation
    assert (HELD_OUT.replace("&", r"\&") in latex) == is_validation
    caption = next(line for line in latex.splitlines() if line.startswith(r"\caption"))
    assert ("validation part" in caption) == is_validation
    assert f"of the {part} part" in page
    assert choice(standing.plan)[1:] in page
    assert ("split 1 (8 recordings)</summary>" in page) == is_validation
    assert f" 8 {part} videos" in text
    for name in ("planted.md", "planted.tex", "planted.html", "planted.svg"):
        assert is_validation == (" test videos" not in files[name].read_text())


def test_the_commands_and_the_metrics_of_the_sweep_name_the_validation_part(tmp_path: Path) -> None:
    standing = standing_of(tmp_path, "validation")
    (evaluate,) = [line for line in command_lines(standing) if line.strip().startswith("evaluate:")]
    assert evaluate.split()[-4:] == ["--split", "1", "--part", "validation"]
    outcome = outcome_of(standing)
    assert outcome.tags["part"] == "validation"
    assert outcome.metrics["best_validation/full/mof"] == ord("b") / 200
    assert not any(name.startswith("final_test/full") for name in outcome.metrics)


def test_the_closing_lines_say_on_which_part_the_best_row_was_chosen(tmp_path: Path) -> None:
    ends = {part: best_lines(standing_of(tmp_path / part, part))[-1] for part in ("test", "validation")}
    assert all(end.strip().startswith("choice:") for end in ends.values())
    assert "--part validation" in ends["test"]
    assert "--part" not in ends["validation"]
    assert not any("choice" in line for line in best_lines(standing_of(tmp_path / "one", "test", rows="a")))

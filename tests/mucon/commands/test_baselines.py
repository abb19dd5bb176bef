"""`mucon baselines`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mucon.cli import main
from storage import StoreWriter
from tests.helpers.annotations import reads_of_labels


def write(path: Path, *, lengths: bool = True) -> Path:
    """Recordings of two actions whose features tell them apart."""
    with StoreWriter(path, dim=2, dtype="float32", vocabulary=("rest", "walk")) as writer:
        for i in range(4):
            labels = np.repeat([0, 1, 0], [4, 10, 6 + i])
            writer.add(
                f"video_{i}",
                np.eye(2, dtype=np.float32)[labels],
                transcript=(0, 1, 0),
                lengths=(4, 10, 6 + i) if lengths else None,
                splits=("1:train" if i < 3 else "1:test",),
            )
    return path


def test_each_reference_has_a_row_and_the_nearest_centroid_learns_separable_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baselines", "--store", str(write(tmp_path / "store"))]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    mof = {row[0]: float(row[1]) for row in rows if row and row[0] in ("action", "transcript", "centroid")}
    assert mof["centroid"] == 100.0
    assert mof["action"] == pytest.approx(100 * 13 / 23, abs=0.06)
    assert mof["transcript"] < 100.0


def test_without_lengths_the_frequent_transcript_has_a_matching_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baselines", "--store", str(write(tmp_path / "store", lengths=False))]) == 0
    text = capsys.readouterr().out
    rows = {row[0]: row[1:] for line in text.splitlines() if (row := line.split()) and len(row) == 10}
    assert set(rows["action"]) == set(rows["centroid"]) == {"-"}
    assert rows["transcript"] == ["-", "-", "100.0", "100.0", "-", "-", "-", "-", "-"]
    assert "recordings with lengths: 0" in text


def test_the_references_of_the_validation_part_learn_from_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reads_of_labels() as read:
        assert main(["baselines", "--store", str(write(tmp_path / "store")), "--part", "validation"]) == 0
    assert read == {"video_0", "video_1", "video_2"}
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert next(row[1] for row in rows if row[:1] == ["centroid"]) == "100.0"

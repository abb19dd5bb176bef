"""Annotations without features: read, completed with drawn lengths, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mucon.cli import main
from mucon.stores.sources import read_source
from mucon.synthetic.annotations import read_annotations
from mucon.synthetic.lengths import completed, read_statistics
from tests.helpers.annotation_folders import edit, without_column, write_annotations


@pytest.mark.parametrize("known", ["segments", "frames", "nothing"])
def test_lengths_come_from_the_segments_or_are_drawn_within_their_statistics(tmp_path: Path, known: str) -> None:
    folder = write_annotations(tmp_path / "notes")
    before = {annotation.id: annotation for annotation in read_annotations(folder)}
    without_column(folder / "transcripts.csv", "lengths")
    if known != "segments":
        (folder / "segments.csv").unlink()
    if known == "nothing":
        without_column(folder / "transcripts.csv", "frames")
    source = read_source(folder, seed=4)
    for recording in source.recordings:
        assert len(recording.lengths) == len(recording.transcript)
        if known == "segments":
            assert recording.lengths == before[recording.id].lengths
        elif known == "frames":
            assert sum(recording.lengths) == before[recording.id].frames
            assert min(recording.lengths) >= 1
        else:
            assert all(5 <= length <= 60 for length in recording.lengths)
    assert any("12 of 12 videos are drawn" in note for note in source.notes) == (known != "segments")
    assert read_source(folder, seed=4) == source
    assert (read_source(folder, seed=5) == source) == (known == "segments")


def test_drawn_lengths_have_the_mean_and_spread_of_their_statistics(tmp_path: Path) -> None:
    statistics = tmp_path / "class_length_stats.csv"
    statistics.write_text("class,log_mean,log_std\na,5.0,0.4\n")
    found = read_statistics(statistics)["a"]
    logs = np.log([found.draw(np.random.default_rng(seed)) for seed in range(1500)])
    assert (logs.mean(), logs.std()) == (pytest.approx(5.0, abs=0.04), pytest.approx(0.4, abs=0.03))


def test_recordings_cut_before_their_last_background_get_one_as_often_as_the_others_have_it(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    whole = [
        f"w{i:03},{'SIL a SIL' if i % 4 else 'SIL a'},{20 if i % 4 else 15},{'5 10 5' if i % 4 else '5 10'}"
        for i in range(40)
    ]
    (folder / "transcripts.csv").write_text("video,transcript,frames,lengths\n" + "\n".join(whole))
    cut = [f"c{i:03},SIL a,15,5 10" for i in range(400)]
    (folder / "transcripts_cut.csv").write_text("video,transcript,frames_without_last_SIL,lengths\n" + "\n".join(cut))
    annotations = read_annotations(folder)
    assert completed(annotations, {}, seed=1)[0] == annotations
    (folder / "class_length_stats.csv").write_text("class,log_mean,log_std,min,max\nSIL,2,1,3,30\n")
    done, notes = completed(annotations, read_statistics(folder / "class_length_stats.csv"), seed=1)
    ended = [annotation for annotation in done if annotation.cut and annotation.transcript == ("SIL", "a", "SIL")]
    assert len(ended) / 400 == pytest.approx(0.75, abs=0.07)
    assert all(lengths[:2] == (5, 10) and 3 <= lengths[2] <= 30 for lengths in (a.lengths or () for a in ended))
    assert [a for a in done if not a.cut] == [a for a in annotations if not a.cut]
    assert f"400 videos are annotated without their last background; {len(ended)} of them got one" in notes[0]


BAD: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "no file": (lambda f: (f / "transcripts.csv").unlink(), ("stand in transcripts.csv", "notes has no such file")),
    "no column": (
        lambda f: without_column(f / "transcripts.csv", "transcript"),
        ("has the columns video, transcript", "transcripts.csv lacks transcript", "add them"),
    ),
    "no rows": (
        lambda f: (f / "transcripts.csv").write_text("video,transcript\n") and (f / "segments.csv").unlink(),
        ("has at least one video", "transcripts.csv has none"),
    ),
    "a short row": (
        lambda f: edit(f / "transcripts.csv", "v01,P1,", "v01,"),
        ("a row has 6 cells", "line 3 of", "transcripts.csv has more or fewer"),
    ),
    "not text": (lambda f: (f / "segments.csv").write_bytes(b"\xff\xfe"), ("CSV file in UTF-8", "segments.csv")),
    "a sum": (
        lambda f: edit(f / "transcripts.csv", "v02,P2,tea,", "v02,P2,tea,1"),
        ("lengths add up to frames, those of line 4 of", "transcripts.csv ('v02') to", "correct one"),
    ),
    "a length of 0": (
        lambda f: edit(f / "segments.csv", "v00,0,SIL,", "v00,0,SIL,0.5"),
        ("length is a whole number from 1, line 2 of", "segments.csv has '0.5"),
    ),
    "too few lengths": (
        lambda f: edit(f / "transcripts.csv", " SIL,", " SIL SIL,"),
        ("an action has one length, line 2 of", "('v00') has 6 actions and 5 lengths"),
    ),
    "a repeated video": (
        lambda f: edit(f / "transcripts.csv", "v03,", "v02,"),
        ("a video has one row, 'v02' has line 4 of", "and line 5 of"),
    ),
    "other segments": (
        lambda f: edit(f / "segments.csv", "v00,0,SIL,", "v00,0,take,"),
        ("a video's segments are its transcript, those of line 2 of", "('v00') are take "),
    ),
    "a segment of no video": (
        lambda f: edit(f / "segments.csv", "v00,0,", "v0,0,"),
        ("a segment belongs to a row of transcripts.csv, line 2 of", "has video 'v0' (did you mean 'v"),
    ),
    "an unknown action": (
        lambda f: edit(f / "mapping.txt", "1 take\n", "1 takes\n"),
        ("mapping.txt, 'take' (line", "transcripts.csv) does not (did you mean 'takes'"),
    ),
    "a split of others": (
        lambda f: edit(f / "splits" / "test.split1.bundle", "v00.txt", "v77.txt"),
        ("a split names videos that there are", "test.split1.bundle names 1 that are not there: v77"),
    ),
    "no statistics": (
        lambda f: [
            without_column(f / "transcripts.csv", "lengths"),
            (f / "segments.csv").unlink(),
            edit(f / "class_length_stats.csv", "take,", "takes,"),
        ],
        ("drawn from class_length_stats.csv, which has no class 'take' (did you mean 'takes'", "transcripts.csv"),
    ),
    "no numbers": (
        lambda f: edit(f / "class_length_stats.csv", "SIL,5,60,3.0", "SIL,5,60,long"),
        ("log_mean is a number, line 2 of", "class_length_stats.csv has 'long': correct it"),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_source_that_does_not_fit_is_told_with_file_and_row_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    folder = write_annotations(tmp_path / "notes")
    damage, fragments = BAD[case]
    damage(folder)
    assert main(["store", "synthesize", str(tmp_path / "store"), "--like", str(folder)]) == 2
    said = capsys.readouterr().err
    assert all(fragment in said for fragment in fragments), said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]

"""Annotations without features: read, completed with drawn lengths, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mucon.cli import main
from mucon.errors import InputError
from mucon.stores.sources import read_source
from mucon.synthetic.annotations import read_annotations
from mucon.synthetic.lengths import completed, read_statistics
from tests.helpers.annotation_folders import edit, without_column, write_annotations
from tests.helpers.refusals import ANY, matching, refused


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
    assert any("12 of 12" in note for note in source.notes) == (known != "segments")
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
    assert {"400", str(len(ended))} <= set(notes[0].split())


BAD: dict[str, tuple[Callable[[Path], object], str, str, object]] = {
    "no file": (lambda f: (f / "transcripts.csv").unlink(), "missing", "transcripts.csv", None),
    "no column": (
        lambda f: without_column(f / "transcripts.csv", "transcript"),
        "missing",
        "transcripts.csv:1",
        ["transcript"],
    ),
    "no rows": (
        lambda f: (f / "transcripts.csv").write_text("video,transcript\n") and (f / "segments.csv").unlink(),
        "missing",
        "transcripts.csv",
        None,
    ),
    "a short row": (lambda f: edit(f / "transcripts.csv", "v01,P1,", "v01,"), "shape", "transcripts.csv:3", 5),
    "a long row": (lambda f: edit(f / "transcripts.csv", "v01,P1,", "v01,P1,x,"), "shape", "transcripts.csv:3", 7),
    "no name": (lambda f: edit(f / "transcripts.csv", "v01,P1,", ",P1,"), "missing", "transcripts.csv:3, video", None),
    "not text": (lambda f: (f / "segments.csv").write_bytes(b"\xff\xfe"), "unreadable", "segments.csv", None),
    "a sum": (
        lambda f: edit(f / "transcripts.csv", "v02,P2,tea,", "v02,P2,tea,1"),
        "mismatch",
        "transcripts.csv:4, frames",
        ANY,
    ),
    "a length of 0": (
        lambda f: edit(f / "segments.csv", "v00,0,SIL,", "v00,0,SIL,0.5"),
        "type",
        "segments.csv:2, length",
        ANY,
    ),
    "too few lengths": (
        lambda f: edit(f / "transcripts.csv", " SIL,", " SIL SIL,"),
        "mismatch",
        "transcripts.csv:2, lengths",
        5,
    ),
    "a repeated video": (
        lambda f: edit(f / "transcripts.csv", "v03,", "v02,"),
        "duplicate",
        "transcripts.csv:5",
        "v02",
    ),
    "other segments": (
        lambda f: edit(f / "segments.csv", "v00,0,SIL,", "v00,0,take,"),
        "mismatch",
        "transcripts.csv:2, segments of v00",
        ANY,
    ),
    "other lengths of segments": (
        lambda f: edit(f / "segments.csv", "v00,0,SIL,", "v00,0,SIL,1"),
        "mismatch",
        "transcripts.csv:2, segments of v00",
        ANY,
    ),
    "a segment of no video": (lambda f: edit(f / "segments.csv", "v00,0,", "v0,0,"), "unknown", "segments.csv:2", "v0"),
    "an unknown action": (
        lambda f: edit(f / "mapping.txt", "1 take\n", "1 takes\n"),
        "unknown",
        "transcripts.csv",
        "take",
    ),
    "a split of others": (
        lambda f: edit(f / "splits" / "test.split1.bundle", "v00.txt", "v77.txt"),
        ANY,
        ANY,
        ANY,
    ),
    "no statistics": (
        lambda f: [
            without_column(f / "transcripts.csv", "lengths"),
            (f / "segments.csv").unlink(),
            edit(f / "class_length_stats.csv", "take,", "takes,"),
        ],
        "missing",
        "class_length_stats.csv: take",
        "take",
    ),
    "no numbers": (
        lambda f: edit(f / "class_length_stats.csv", "SIL,5,60,3.0", "SIL,5,60,long"),
        "type",
        "class_length_stats.csv:2, log_mean",
        "long",
    ),
    "a range that is empty": (
        lambda f: edit(f / "class_length_stats.csv", "SIL,5,60", "SIL,61,60"),
        "range",
        "class_length_stats.csv:2, min",
        61.0,
    ),
}
NEAREST = {"a segment of no video": "'v0", "an unknown action": "'takes'", "no statistics": "'takes'"}
"""A name that the message suggests."""


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_source_is_refused_with_file_and_row_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    folder = write_annotations(tmp_path / "notes")
    damage, rule, place, value = BAD[case]
    damage(folder)
    if rule is ANY:  # a problem of the store's split files
        place = "test.split1.bundle"
        with pytest.raises(InputError, match=place):
            read_source(folder)
    else:
        with refused(rule, place, value) as refusal:
            read_source(folder)
        assert NEAREST.get(case, "") in str(matching(refusal.problems, rule, place)[0])
    assert main(["store", "synthesize", str(tmp_path / "store"), "--like", str(folder)]) == 2
    error = capsys.readouterr().err
    assert place in error
    assert "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]

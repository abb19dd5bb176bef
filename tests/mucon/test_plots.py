"""Figures of segmentations."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest

from mucon.errors import DataWarning
from mucon.evaluation import Evaluation
from mucon.plots import GREYS, action_looks, draw_evaluation, segmentation_figure
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from tests.helpers.factories import small_videos

FULL, EMPTY = Segmentation.of((0, 1), (5, 5)), Segmentation.of((), ())


def row_names(axis) -> list[str]:
    low, high = sorted(axis.get_ylim())
    ticks = zip(axis.get_yticklabels(), axis.get_yticks(), strict=True)
    return [label.get_text() for label, at in ticks if low <= at <= high]


@pytest.mark.parametrize("bars", [[FULL, EMPTY], [EMPTY, FULL], [EMPTY, EMPTY], [FULL, EMPTY, EMPTY, FULL]])
def test_an_empty_prediction_keeps_its_row(bars: list[Segmentation]):
    rows = {"clip": [(f"row {i}", bar) for i, bar in enumerate(bars)]}
    figure = segmentation_figure(rows, Vocabulary(("rest", "pour")))
    figure.savefig(io.BytesIO())
    (axis,) = figure.axes
    assert row_names(axis) == [f"row {i}" for i in range(len(bars))]
    notes = [text.get_position()[1] for text in axis.texts if text.get_text() == "no segments"]
    assert notes == [i for i, bar in enumerate(bars) if bar is EMPTY]


@pytest.mark.parametrize("name", ["pour_$milk$", "$\\broken{", "a^b_c", "50 % \\alpha", "_hidden"])
def test_names_are_drawn_as_they_are_written(name: str):
    figure = segmentation_figure({name: [(name, FULL)]}, Vocabulary(("rest", name)))
    file = io.StringIO()
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg")
    escaped = name.replace("&", "&amp;")
    assert file.getvalue().count(f">{escaped}<") == 3  # title, row and legend


def evaluation_of(video: Video) -> Evaluation:
    return Evaluation(
        task="segmentation", scores={}, undefined={}, recall={}, precision={}, confusion={}, true_frames={},
        per_video=[], segmentations={"full": {video.id: FULL}}, seconds={},
    )  # fmt: skip


def test_signs_of_other_fonts_are_found_and_unknown_ones_are_one_warning(tmp_path: Path):
    (video,) = small_videos(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rare = Vocabulary(("rest", "\N{CUNEIFORM SIGN A}", "pour", "stir"))
        with pytest.warns(DataWarning) as caught:
            draw_evaluation(evaluation_of(video), [video], rare, tmp_path / "x.png")
        (warning,) = caught
        assert isinstance(warning.message, DataWarning)
        assert (warning.message.problem.rule, warning.message.problem.value) == ("missing", "\N{CUNEIFORM SIGN A}")
        elsewhere = Vocabulary(("rest", "\N{GREEK TONOS}\N{MATHEMATICAL SCRIPT CAPITAL A}", "pour", "stir"))
        draw_evaluation(evaluation_of(video), [video], elsewhere, tmp_path / "y.svg")
    assert (tmp_path / "x.png").stat().st_size
    assert (tmp_path / "y.svg").stat().st_size


def test_twelve_actions_have_plain_colours_and_background_is_grey():
    looks = action_looks(range(14), background=[3, 5])
    assert [looks[3]["facecolor"], looks[5]["facecolor"]] == list(GREYS[:2])
    assert {look["hatch"] for look in looks.values()} == {""}
    assert len({look["facecolor"] for look in looks.values()}) == 14
    assert action_looks(range(13))[12]["hatch"]


def test_a_recording_without_lengths_has_no_true_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (video,) = small_videos(1)
    unlabelled = Video.from_arrays(video.id, video.read(), video.transcript)
    seen = {}
    monkeypatch.setattr("mucon.plots.draw_bar", lambda axis, position, *_: seen.update({position: axis}))
    draw_evaluation(evaluation_of(video), [unlabelled], Vocabulary(tuple("abcd")), tmp_path / "x.png")
    assert list(seen) == [0]

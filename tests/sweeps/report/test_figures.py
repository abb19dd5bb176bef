"""Figures show every row, name missing values, leave matplotlib's settings unchanged and are drawn once."""

import dataclasses
import hashlib
import html
import json
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import image

from mucon.errors import InputError
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.report.figures import plots as figures
from sweeps.service.report.figures import style as figure_style
from sweeps.service.report.figures import training as figure_training
from sweeps.service.report.figures.numbers import numbers_of_setting
from sweeps.service.report.figures.pictures import figure_data
from sweeps.service.report.figures.plots import Data, Points
from sweeps.service.report.figures.segmentations import segmentations
from sweeps.service.report.figures.training import Curve
from sweeps.service.report.report import check_figures, write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.figure import Figure
from sweeps.service.tables.baselines import BLIND
from sweeps.service.tables.standing import Standing
from sweeps.service.trials import known_results
from sweeps.service.trials.reading import ACCURACY, LOSS
from tests.helpers.planted_sweeps import EVALUATION, Unfinished, make_sweep
from tests.helpers.refusals import refused
from tests.sweeps import small

NAMES = ('a <b>&" row', "costs $5 or $6", "late")
LEVELS = {BLIND: 41.3}
ROWS = (
    Points(name=NAMES[0], y=(50.0, 52.0, 51.0), x=(0.01, 0.02, 0.015)),
    Points(name=NAMES[1], y=(60.0,), x=(0.4,), missing="1 of 3 seeds"),
    Points(name=NAMES[2], y=(), missing="0 of 3 seeds"),
)
DATA = Data(rows=ROWS, y_title="MoF (%)", x_title="seconds", levels=LEVELS, top=100.0)


def svg_of(draw: object, folder: Path) -> str:
    with figure_style.style():
        paths = figure_style.save(draw, folder, "figure")
    assert sorted(paths) == ["figure.png", "figure.svg"]
    pixels = image.imread(paths["figure.png"])
    assert min(pixels.shape[:2]) > 200
    assert pixels[..., :3].std() > 0.02
    return paths["figure.svg"].read_text()


@pytest.mark.parametrize("draw", [figures.bars, figures.scatter])
def test_a_figure_names_every_row_and_its_missing_seeds(draw: object, tmp_path: Path) -> None:
    with figure_style.style():
        drawn = draw(DATA)  # type: ignore[operator]
    svg = svg_of(drawn, tmp_path)
    for text in ('a &lt;b&gt;&amp;" row', "costs $5 or $6", "late", "0 of 3 seeds", "1 of 3 seeds", *LEVELS, "MoF (%)"):
        assert text in svg


def test_a_curve_has_its_numbers_on_the_axis_each_at_its_place(tmp_path: Path) -> None:
    rows = tuple(Points(name=f"{p} %", y=(40.0 + i, 42.0 + i)) for i, p in enumerate((0, 1, 10, 100)))
    with figure_style.style():
        drawn = figures.curve(Data(rows=rows, y_title="MoF (%)", x_title="share", levels=LEVELS))
        drawn.draw_without_rendering()
        axes = drawn.axes[0]
        places = axes.transData.transform([(x, 0) for x in (0, 1, 10, 100)])[:, 0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0 %", "1 %", "10 %", "100 %"]
    assert np.all(np.diff(places) > 40)
    assert places[3] - places[2] == pytest.approx(places[2] - places[1], rel=0.15)
    assert BLIND in svg_of(drawn, tmp_path)


def places_of(draw: object) -> dict[str, float]:
    """Tick label of the x axis -> position in pixels."""
    draw.draw_without_rendering()  # type: ignore[attr-defined]
    axes = draw.axes[0]  # type: ignore[attr-defined]
    pixels = axes.transData.transform([(x, 0) for x in axes.get_xticks()])[:, 0]
    return dict(zip((text.get_text() for text in axes.get_xticklabels()), pixels.tolist(), strict=True))


@pytest.mark.parametrize(
    "labels",
    [
        ("1e-05", "1e-4", "0.001", "1e-2", ".5", "2.5e+03", "1,000,000"),
        ("-10", "-2.5", "none", "1", "1e1"),
        ("beam 2", "beam 10", "beam 50"),
        ("500", "2k"),
    ],
)
def test_the_rows_of_a_curve_are_in_the_order_of_the_numbers_in_their_labels(labels: tuple[str, ...]) -> None:
    rows = tuple(Points(name=label, y=(40.0 + i,)) for i, label in enumerate(labels))
    with figure_style.style():
        places = places_of(figures.curve(Data(rows=rows[::-1], y_title="MoF (%)")))
    assert sorted(places, key=lambda label: places[label]) == list(labels)
    assert min(np.diff(sorted(places.values()))) > 15


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (("box", "1", "10"), ("box",)),
        (("1/2", "1/3", "1/4"), ("1/2", "1/3", "1/4")),
        (("0,5", "1"), ("0,5",)),
        (("1e999", "2", "3"), ("1e999",)),
    ],
)
def test_labels_without_a_number_of_their_own_are_categories_and_a_note_names_them(
    labels: tuple[str, ...], named: tuple[str, ...]
) -> None:
    rows = tuple(Points(name=label, y=(40.0 + i,)) for i, label in enumerate(labels))
    with figure_style.style():
        drawn = figures.curve(Data(rows=rows, y_title="MoF (%)", x_title="share"))
        places = places_of(drawn)
    assert list(places) == list(labels)
    assert np.diff(list(places.values())) == pytest.approx(np.diff(list(places.values()))[0])
    note = drawn.axes[0].get_xlabel().partition("\n")[2]
    assert [label for label in labels if repr(label) in note] == list(named)
    assert drawn.axes[0].lines[0].get_linestyle() == "None"


@pytest.mark.parametrize(
    ("labels", "settings", "numbers"),
    [
        (("high", "low"), [{"training.weight_decay": 0.1}, {"training.weight_decay": 1e-5}], [0.1, 1e-5]),
        (("1", "2"), [{"a.x": 3, "a.y": 5}, {"a.x": 3, "a.y": 7}], [5, 7]),
        (("a", "b"), [{"a.x": 1, "a.y": 5}, {"a.x": 2, "a.y": 7}], None),  # two settings fit
        (("a", "b"), [{"a.x": 1}, {}], None),  # a row without the setting
        (("a", "b"), [{"a.x": True}, {"a.x": False}], None),
        (("a", "b", "a"), [{"a.x": 1}, {"a.x": 2}, {"a.x": 3}], None),  # not constant under a label
    ],
)
def test_the_place_of_a_row_is_the_number_of_its_setting(
    labels: tuple[str, ...], settings: list[dict[str, object]], numbers: list[float] | None
) -> None:
    expected = None if numbers is None else dict(zip(labels, numbers, strict=True))
    assert numbers_of_setting(labels, settings, "Label") == expected


def test_the_setting_of_a_curve_reaches_its_figure(tmp_path: Path) -> None:
    decays = (0.1, 0.01, 0.001, 0.0001)
    shape = Experiment(
        name="decay",
        title="Decay",
        label_titles=("Decay",),
        variants=tuple(
            Variant(labels=(name,), settings={"training.weight_decay": decay})
            for name, decay in zip("abcd", decays, strict=True)
        ),
        columns=(Column(metric="mof"),),
        figure=Figure(kind="curve", x="Decay"),
    )
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=1)
    data = figure_data(plan.parts[0], Standing.of(plan))
    assert data.numbers == dict(zip("abcd", decays, strict=True))
    with figure_style.style():
        assert sorted((places := places_of(figures.curve(data))), key=lambda name: places[name]) == list("dcba")


@pytest.mark.parametrize("draw", [figures.bars, figures.curve])
@pytest.mark.parametrize(("n", "is_shown"), [(2, False), (4, False), (5, True)])
def test_an_interval_is_shown_from_five_seeds_on_and_ends_at_the_bounds(draw: object, n: int, is_shown: bool) -> None:
    rows = tuple(Points(name=name, y=tuple(np.linspace(low, low + 8, n))) for name, low in (("1", 1.0), ("2", 91.0)))
    with figure_style.style():
        drawn = draw(Data(rows=rows, y_title="MoF (%)", top=100.0, about="tug, split 1"))  # type: ignore[operator]
        drawn.draw_without_rendering()
    (legend,) = drawn.legends
    titles = {text.get_text() for text in legend.get_texts()}
    assert titles >= {"mean over seeds", "individual seeds"}
    assert (f"95 % interval of the mean (n = {n} seeds)" in titles) == is_shown
    assert drawn.axes[0].get_title(loc="left") == f"tug, split 1, n = {n} seeds"
    low, high = Data(rows=(), y_title="", top=100.0).interval((1.0, 99.0, 98.0, 99.0, 99.0)) or (0.0, 0.0)
    assert (round(low), high) == (25, 100.0)


def test_equal_seeds_are_drawn_although_their_mean_is_rounded() -> None:
    rows = tuple(Points(name=str(i), y=(100 * 0.1 * i / 7,) * 5) for i in range(1, 60))
    with figure_style.style():
        assert figures.bars(Data(rows=rows, y_title="MoF (%)", top=100.0)).axes


def test_no_name_of_a_scatter_covers_another_or_is_cut() -> None:
    rows = tuple(Points(name=f"a long row name {i}", y=(50 + 0.1 * i,), x=(0.02 + 0.0005 * i,)) for i in range(7))
    with figure_style.style():
        axes = figures.scatter(Data(rows=rows, y_title="MoF (%)", x_title="s")).axes[0]
        boxes = [text.get_window_extent() for text in axes.texts]
        frame = axes.get_window_extent()
    assert len(boxes) == 7
    for i, box in enumerate(boxes):
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_training_curves_have_a_panel_for_each_row_of_loss_and_of_accuracy(tmp_path: Path) -> None:
    values = {
        LOSS: tuple((epoch, 3.0 / epoch) for epoch in range(1, 5)),
        ACCURACY: tuple((epoch, 0.1 * epoch) for epoch in range(1, 5)),
    }
    curves = [Curve(row=row, seed=seed, split="1", values=values) for row in ("box", "bell") for seed in (1, 2)]
    with figure_style.style():
        drawn = figure_training.training(curves, "tug, split 1")
        assert figure_training.training([Curve(row="box", seed=1, split="1", values={})]) is None
    assert drawn is not None
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["box", "bell"] * 2
    assert [len(axes.lines) for axes in drawn.axes] == [4] * 4
    assert max(drawn.axes[2].lines[-1].get_ydata()) == pytest.approx(40)
    svg = svg_of(drawn, tmp_path)
    for title in (*figure_training.AXES.values(), "seed 1", "seed 2", "trials of the other rows", "tug, split 1"):
        assert title in svg
    (few, *_) = drawn.axes[0].get_lines()
    assert few.get_color() == figure_style.COLOURS[0]
    assert few.get_marker() == "o", "a curve of few points has markers"


def test_many_rows_share_one_panel() -> None:
    values: dict[str, tuple[tuple[int, float], ...]] = {LOSS: ((1, 2.0), (2, 1.0))}
    curves = [Curve(row=f"row {i}", seed=1, split="1", values=values) for i in range(figure_training.MAX_PANELS + 1)]
    with figure_style.style():
        drawn = figure_training.training(curves)
    assert drawn is not None
    assert [len(axes.lines) for axes in drawn.axes] == [len(curves)]


def test_matplotlibs_settings_are_neither_changed_nor_used(tmp_path: Path) -> None:
    with matplotlib.rc_context({"axes.facecolor": "#123456", "font.size": 30}):
        before = dict(matplotlib.rcParams)
        with figure_style.style():
            svg = svg_of(figures.bars(DATA), tmp_path)
        assert dict(matplotlib.rcParams) == before
    with figure_style.style():
        assert svg_of(figures.bars(DATA), tmp_path) == svg
    assert "#123456" not in svg


@pytest.fixture
def planted(tmp_path: Path) -> Plan:
    shape = Experiment(
        name="planted",
        title="Planted numbers",
        label_titles=("Labelled",),
        variants=tuple(Variant(labels=(f"{p} %",), settings={"training.labelled": p / 100}) for p in (0, 10, 100)),
        columns=(Column(title="MoF", metric="mof"),),
        figure=Figure(kind="curve", x="Labelled"),
    )
    unfinished = {("10 %", "1", 2): Unfinished("failed", "ValueError: no cake")}
    return make_sweep(
        tmp_path,
        shape,
        lambda row, _, seed, __: 0.5 + 0.01 * seed + int(row[:-2]) / 1000,
        n_seeds=3,
        unfinished=unfinished,
    )


def files(folder: Path, suffix: str) -> dict[str, tuple[int, str]]:
    return {
        path.name: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.glob(f"*.{suffix}")
    }


def test_a_figure_is_redrawn_only_when_its_data_has_changed_or_a_file_is_missing(planted: Plan) -> None:
    standing = Standing.of(planted)
    figure = {"planted.png", "planted.svg"}
    tables = {"planted.csv", "planted.md", "planted.tex", "trials.parquet"}
    assert set(write_report(standing)) == {"planted.html"} | figure | tables
    drawn = files(planted.folder, "svg")
    write_report(Standing.of(read_plan(planted.results, "planted")))
    assert files(planted.folder, "svg") == drawn
    (planted.folder / "planted.png").unlink()
    write_report(standing)
    assert (planted.folder / "planted.png").exists()
    result = planted.results.trial(planted.cells[0].identity).result_path(EVALUATION)
    value = json.loads(result.read_text())
    value["scores"]["full"]["mof"] += 0.1
    result.write_text(json.dumps(value))
    write_report(Standing.of(planted))
    assert files(planted.folder, "svg")["planted.svg"][1] != drawn["planted.svg"][1]


def test_without_time_no_figure_is_begun_and_the_next_report_draws_it(
    planted: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_results, "SETTLED_SECONDS", 0.0)
    late = write_report(Standing.of(planted), until=0.0)
    assert set(late) == {"planted.html", "planted.csv", "planted.md", "planted.tex", "trials.parquet"}
    assert "<figure" not in late["planted.html"].read_text()
    assert not (planted.folder / "planted.svg").exists()
    whole = write_report(Standing.of(planted))
    assert "<figure id='figure-planted'" in whole["planted.html"].read_text()
    assert set(write_report(Standing.of(planted), until=0.0)) == set(whole), "what is current is left as it is"


def test_seeds_are_drawn_in_percent_without_the_failed_ones(planted: Plan) -> None:
    data = figure_data(planted.parts[0], Standing.of(planted))
    assert [row.y for row in data.rows] == [
        pytest.approx((51.0, 52.0, 53.0)),
        pytest.approx((52.0, 54.0)),
        pytest.approx((61.0, 62.0, 63.0)),
    ]
    assert [row.missing for row in data.rows] == ["", "2 of 3 seeds", ""]
    assert data.levels == pytest.approx({BLIND: 20.0, "ceiling of frames, pooling x16": 90.0})


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        (Figure(kind="curve", x="Labeled"), ["'Labeled'", "'Labelled'"]),
        (Figure(kind="scatter", x="s/video"), ["'s/video'"]),
        (Figure(y="MOF"), ["'MOF'"]),
        (Figure(kind="segmentations", n_recordings=0), ["0"]),
    ],
)
def test_a_figure_of_a_column_that_the_table_lacks_is_refused(figure: Figure, values: list[str]) -> None:
    with pytest.raises(InputError) as refusal:
        Experiment(name="x", title="x", label_titles=("Labelled",), variants=(Variant(labels=("a",)),), figure=figure)
    assert len(refusal.value.problems) == 1
    assert all(value in str(refusal.value) for value in values)


def segmented(tmp_path: Path, recordings: tuple[str, ...] = ()) -> Plan:
    """A sweep of two rows over a tiny store; one row has predictions, the other has failed."""
    shape = Experiment(
        name="segmented",
        title="Colour bars",
        label_titles=("Run",),
        variants=(Variant(labels=("weak",)), Variant(labels=("full",), settings={"training.labelled": 1.0})),
        columns=(Column(title="MoF", metric="mof"),),
        figure=Figure(kind="segmentations", recordings=recordings, n_recordings=2),
    )
    unfinished = {("full", "1", 1): Unfinished("failed", "no cake")}
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=1, unfinished=unfinished)
    store = small.make_store(tmp_path / "store")
    cell = plan.cells[0]
    videos = {f"video_0{i}": {"transcript": ["rest", "stir", "drink"], "lengths": [20, 20, 30]} for i in (6, 7, 8)}
    folder = plan.results.trial(cell.identity).predictions_path(EVALUATION)
    folder.mkdir()
    (folder / "full.json").write_text(json.dumps({"format_version": 1, "prediction": "full", "videos": videos}))
    return dataclasses.replace(plan, store=str(store))


def test_colour_bars_show_the_truth_and_the_rows_with_predictions(tmp_path: Path) -> None:
    plan = segmented(tmp_path)
    write_report(Standing.of(plan))
    svg = (plan.folder / "segmented.svg").read_text()
    for text in ("ground truth", "weak", "video_06", "video_07", "rest", "pour", "stir", "drink"):
        assert f">{text}<" in svg
    assert ">full<" not in svg
    assert "video_08" not in svg
    picture = segmentations(plan.parts[0], Standing.of(plan), name="segmented", title="Colour bars")
    assert picture is not None
    (missing,) = [note for note in picture.notes if str(plan.cells[1]) in note]
    assert missing.endswith(": failed")
    assert html.escape(missing) in (plan.folder / "segmented.html").read_text()


def test_without_the_store_there_are_no_colour_bars_and_all_other_files(tmp_path: Path) -> None:
    plan = dataclasses.replace(segmented(tmp_path), store=str(tmp_path / "gone"))
    paths = write_report(Standing.of(plan))
    assert not [name for name in paths if name.endswith((".svg", ".png"))]
    assert {"segmented.html", "segmented.md", "trials.parquet"} <= set(paths)


def test_a_recording_that_is_not_in_the_test_part_is_refused_before_training(tmp_path: Path) -> None:
    plan = segmented(tmp_path, ("video_88", "video_07", "x"))
    with refused("unknown", place="figure.recordings", value="video_88", n=2) as refusal:
        check_figures(plan)
    assert refusal.values == ["video_88", "x"]
    assert "'video_08'" in str(refusal.problems[0])
    with refused("unknown", place="figure.recordings", value="video_88", n=2):
        write_report(Standing.of(plan))
    check_figures(segmented(tmp_path / "named", ("video_08", "video_07")))

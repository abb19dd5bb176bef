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
        drawn = figure_training.training(curves)
        assert figure_training.training([Curve(row="box", seed=1, split="1", values={})]) is None
    assert drawn is not None
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["box", "bell"] * 2
    assert [len(axes.lines) for axes in drawn.axes] == [4] * 4
    assert max(drawn.axes[2].lines[-1].get_ydata()) == pytest.approx(40)
    svg = svg_of(drawn, tmp_path)
    assert all(title in svg for title in figure_training.AXES.values())


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

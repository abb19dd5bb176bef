"""Figures of a search: the numbers of each are those of its CSV, nothing overlaps, every state is shown."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.text import Text

from mucon.configuration import setting_text
from sweeps.service.report.figures.style import style
from sweeps.service.report.search.charts import Chart, charts_of
from sweeps.service.report.search.relations import ABSENT
from sweeps.service.report.search.scales import BESIDE, Scale
from sweeps.service.report.search.values import Shown
from sweeps.service.search.points import Measured, Point, PointRecord, SearchHistory
from tests.helpers.planted_points import HOSTILE, MOF, planted_search

SIZES = [(3, 2, 1), (20, 12, 2), (200, 12, 1)]
Row = dict[str, str]


def charts(history: SearchHistory) -> dict[str, Chart]:
    shown = Shown.of(history, f"validation part of 4 subjects, {HOSTILE}")
    return {chart.picture.name.removeprefix("planted_"): chart for chart in charts_of(shown, "Search")}


@pytest.fixture(scope="module", params=SIZES, ids=str)
def drawn(request: pytest.FixtureRequest) -> Iterator[tuple[SearchHistory, dict[str, Chart], dict[str, Any]]]:
    history = planted_search(*request.param)
    made = charts(history)
    with style():
        figures = {name: chart.picture.draw() for name, chart in made.items()}
        for figure in figures.values():
            figure.draw_without_rendering()
        yield history, made, figures


def rows_of(chart: Chart) -> list[Row]:
    return list(csv.DictReader(io.StringIO(chart.csv)))


def marks(axes: Any, *, scored: bool = True) -> Counter[tuple[float, float]]:
    """The points that are drawn, those with a score or those at the lower edge."""
    lines = [line for line in axes.lines if line.get_linestyle() == "None" and line.get_marker() not in ("|", "_")]
    chosen = [line for line in lines if (line.get_transform() == axes.transData) == scored]
    return Counter(tuple(map(float, xy)) for line in chosen for xy in line.get_xydata())  # type: ignore[misc]


def panels(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_visible()]


def test_the_history_has_the_numbers_of_its_csv(drawn: Any) -> None:
    history, made, figures = drawn
    rows = rows_of(made["history"])
    assert len(rows) == len(history.records) * len(history.search["objectives"])
    for axes, (title, group) in zip(
        panels(figures["history"]), itertools.groupby(rows, lambda row: row["objective"]), strict=True
    ):
        here = list(group)
        assert axes.get_ylabel() == title
        with_score = [row for row in here if row["score"]]
        assert marks(axes) == Counter((float(row["point"]), float(row["score"])) for row in with_score)
        without = [float(row["point"]) for row in here if not row["score"]]
        assert sorted(x for x, _ in marks(axes, scored=False)) == without
        (best,) = (line for line in axes.lines if line.get_label() == "best so far")
        steps = dict(zip(*map(list, (best.get_xdata(), best.get_ydata())), strict=True))
        assert {
            float(row["point"]): float(row["best so far"]) for row in here if row["best so far"]
        }.items() <= steps.items()
        bars = [path.vertices for bar in axes.collections for path in bar.get_paths()]
        spans = {(float(path[0][0]), round((path[1][1] - path[0][1]) / 2, 9)) for path in bars}
        assert spans == {(float(row["point"]), round(float(row["std"]), 9)) for row in here if row["std"]}


def test_the_slices_have_the_numbers_of_their_csv(drawn: Any) -> None:
    history, made, figures = drawn
    for name in (name for name in made if name.startswith("slices")):
        by_setting: dict[str, list[Row]] = {}
        for row in rows_of(made[name]):
            by_setting.setdefault(row["setting"], []).append(row)
        assert list(by_setting) == list(history.search["space"])
        for axes, (path, rows) in zip(panels(figures[name]), by_setting.items(), strict=True):
            assert axes.get_xlabel().replace("\n", "") == path
            scale = Scale.of(history.search["space"][path], [])
            expected = Counter()
            for row in rows:
                value: object = row["value"] if scale.options else float(row["value"])
                place = scale.options.index(row["value"]) if scale.options else scale.place(value)
                if row["score"] and scale.options:
                    expected[(place, round(float(row["score"]), 9))] += 1
                elif row["score"]:
                    expected[(round(place, 9), round(float(row["score"]), 9))] += 1  # type: ignore[arg-type]
            found = Counter()
            for (x, y), n in marks(axes).items():
                found[(int(x * len(scale.options)) if scale.options else round(x, 9), round(y, 9))] += n
            assert found == expected


def test_parallel_lines_have_the_numbers_of_their_csv(drawn: Any) -> None:
    history, made, figures = drawn
    paths, rows = list(history.search["space"]), rows_of(made["parallel"])
    (axes,) = panels(figures["parallel"])
    names = len(paths) + len(history.search["objectives"])
    lines = [list(map(float, line.get_xdata())) for line in axes.lines if len(line.get_ydata()) == names]
    assert len(lines) == len(rows) == len(history.records)
    for column, path in enumerate(paths):
        scale = Scale.of(history.search["space"][path], [])
        absent = [line for line in lines if line[column] == ABSENT]
        assert len(absent) == sum(not row[path] for row in rows)
        if not scale.options:
            places = [scale.place(float(row[path])) for row in rows if row[path]]
            assert sorted(line[column] for line in lines if line[column] != ABSENT) == pytest.approx(sorted(places))  # type: ignore[type-var]
        else:
            found = Counter(scale.options[int(line[column] * len(scale.options))] for line in lines if line[column] < 1)
            assert found == Counter(row[path] for row in rows if row[path])
    for column, objective in enumerate(history.search["objectives"], len(paths)):
        values = [float(row[head]) for row in rows for head in row if head.startswith(objective["title"]) and row[head]]
        span = max(values) - min(values)
        found_values = sorted(min(values) + line[column] * span for line in lines if line[column] != ABSENT)
        assert found_values == pytest.approx(sorted(values))
    widths = {
        line.get_linewidth() for line in axes.lines if len(line.get_ydata()) == names and line.get_zorder() >= 2.5
    }
    assert len(widths) == len({row["colour"] for row in rows if row["colour"]})


def test_importance_has_the_numbers_of_its_csv(drawn: Any) -> None:
    _, made, figures = drawn
    rows = rows_of(made["importance"])
    widths = [patch.get_width() for axes in panels(figures["importance"]) for patch in axes.patches]
    assert widths == [float(row["share (%)"]) for row in rows]
    labels = [label.get_text() for label in figures["importance"].axes[0].get_yticklabels()]
    assert all(row["setting"].endswith(label.lstrip("…")) for row, label in zip(rows, labels, strict=False))


def test_the_pareto_front_has_the_numbers_of_its_csv(drawn: Any) -> None:
    history, made, figures = drawn
    if len(history.search["objectives"]) == 1:
        assert "pareto" not in made
        return
    rows = rows_of(made["pareto"])
    (axes,) = panels(figures["pareto"])
    x, y = axes.get_xlabel(), axes.get_ylabel()
    assert (x, y) == ("s/video", "MoF (%)")
    assert marks(axes) == Counter((float(row[x]), float(row[y])) for row in rows)
    front = sorted((float(row[x]), float(row[y])) for row in rows if row["on the front"] == "1")
    (stars,) = (line for line in axes.lines if line.get_marker() == "*")
    assert [tuple(map(float, xy)) for xy in stars.get_xydata()] == front
    assert {text.get_text() for text in axes.texts} == {row["point"] for row in rows if row["on the front"] == "1"}


def test_every_state_is_in_the_legend_and_points_without_a_score_are_at_the_edge(drawn: Any) -> None:
    history, _, figures = drawn
    (legend,) = figures["history"].legends
    titles = " ".join(text.get_text() for text in legend.get_texts())
    assert all(state in titles for state in {record.state for record in history.records} - {"complete"})
    assert "no value" in {text.get_text() for text in figures["parallel"].axes[0].texts} or len(history.records) == 3


def test_no_label_covers_another_or_is_cut(drawn: Any) -> None:
    _, _, figures = drawn
    for name, figure in figures.items():
        page = figure.bbox.expanded(1.003, 1.0)
        texts = [*(legend for legend in figure.legends), *(axes.xaxis.label for axes in panels(figure))]
        for axes in panels(figure):
            ticks = [
                [
                    label
                    for label in axis.get_ticklabels()
                    if label.get_text() and low <= label.get_position()[i] <= high
                ]
                for i, axis in enumerate((axes.xaxis, axes.yaxis))
                for low, high in (sorted(axis.get_view_interval()),)
            ]
            texts += [axes.yaxis.label, *itertools.chain(*ticks), *axes.texts]
            for group in (*ticks, axes.texts if name == "parallel" else []):
                boxes = [label.get_window_extent() for label in group if label.get_rotation() in (0, 90)]
                assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2)), name
        for text in texts:
            if isinstance(text, Text) and not text.get_text():
                continue
            box = text.get_window_extent()
            assert page.containsx(box.x0), (name, text)
            assert page.containsx(box.x1), (name, text)
            assert page.containsy(box.y0), (name, text)
            assert page.containsy(box.y1), (name, text)


def test_points_without_an_effective_setting_are_not_on_its_slice() -> None:
    made = charts(planted_search(20, 4))
    shape = {record.point.number: record.point.settings["mask.shape"] for record in planted_search(20, 4).records}
    rows = [row for row in rows_of(made["slices"]) if row["setting"] == "mask.overlap"]
    assert {shape[int(row["point"])] for row in rows} == {"trapezoid", "bell"}
    assert len(rows) == sum(one in ("trapezoid", "bell") for one in shape.values())


def test_a_search_without_points_has_no_figure_and_one_without_scores_only_its_history() -> None:
    empty = planted_search(0, 2)
    assert charts(empty) == {}
    failed = PointRecord(point=Point(0, {"training.learning_rate": 0.1}), state="failed", reason="diverged")
    made = charts(SearchHistory(search=empty.search, records=(failed,)))
    assert list(made) == ["history"]
    with style():
        made["history"].picture.draw().draw_without_rendering()


def assert_labels_apart(axes: Any) -> None:
    axes.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_default_that_a_logarithmic_axis_cannot_have_is_drawn_beside_it() -> None:
    history = planted_search(20, 4)
    default, *others = history.records
    for value, label in ((0.0, "0"), (None, "none")):
        point = replace(default.point, settings={**default.point.settings, "loss.smoothing": value})
        made = charts(replace(history, records=(replace(default, point=point), *others)))
        with style():
            figures = {name: made[name].picture.draw() for name in ("slices", "parallel")}
        axes = next(axes for axes in figures["slices"].axes if axes.get_xlabel().replace("\n", "") == "loss.smoothing")
        assert axes.get_xticklabels()[0].get_text() == label
        assert_labels_apart(axes)
        assert (BESIDE, 100 * default.mean[0]) in marks(axes)
        assert axes.get_xlim()[0] < BESIDE
        (row,) = (row for row in rows_of(made["slices"]) if (row["setting"], row["point"]) == ("loss.smoothing", "0"))
        assert row["value"] == setting_text(value)
        assert label in {text.get_text() for text in figures["parallel"].axes[0].texts}


def test_equal_scores_and_one_value_of_a_setting_are_drawn() -> None:
    search = {**planted_search(0, 2).search, "space": {"a": {"kind": "uniform", "low": 1, "high": 1}}}
    records = tuple(
        PointRecord(point=Point(i, {"a": 1}), state="complete", scores={1: Measured((0.0,))}) for i in range(3)
    )
    made = charts(SearchHistory(search=search, records=records, best=(0, 1, 2), importance=({"a": 0.0},)))
    with style():
        for chart in made.values():
            chart.picture.draw().draw_without_rendering()


def test_one_point_is_the_best_and_a_worse_objective_is_pale() -> None:
    shown = Shown.of(planted_search(20, 2), "")
    assert sum(dot.is_best for dot in shown.dots) == 1
    levels = shown.levels()
    best = next(dot for dot in shown.dots if dot.is_best)
    assert levels[best.number] == 0
    assert sorted(levels) == sorted(dot.number for dot in shown.dots if dot.is_ranked)
    ordered = sorted((dot for dot in shown.dots if dot.is_ranked), key=lambda dot: -dot.means[0])
    assert [levels[dot.number] for dot in ordered] == sorted(levels.values())
    assert shown.scores[0].title == f"{MOF['title']} (%)"

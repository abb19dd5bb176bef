"""The catalogue lists what a result contains, and a metric of the catalogue is computed without further code."""

from __future__ import annotations

import pytest

from mucon.metrics.alignment import alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.catalogue import METRICS, PER_ACTION, Metric, metric_of, printed_metrics
from mucon.metrics.scores import compute, score
from mucon.segments import Segmentation
from tests.helpers.refusals import refused

TRUE = [Segmentation.of([0, 1, 0], [4, 4, 2])]
PREDICTED = [Segmentation.of([0, 1, 0], [2, 6, 2])]


def test_names_and_titles_are_distinct():
    for attribute in ("name", "title", "narrow_title"):
        values = [getattr(metric, attribute) for metric in (*METRICS, *PER_ACTION)]
        assert len(set(values)) == len(values)


@pytest.mark.parametrize("task", ["segmentation", "alignment"])
def test_the_catalogue_lists_exactly_what_is_computed(task: str):
    scores = score(TRUE, PREDICTED, (0,)) | boundary_scores(TRUE, PREDICTED, fps=15.0)
    if task == "alignment":
        scores |= alignment_scores(TRUE, PREDICTED, (0,), fps=15.0)
    assert set(scores.values) == {metric.name for metric in METRICS if metric.per_video and task in metric.tasks}
    for metric in METRICS:
        if metric.unit in ("percent", "fraction") and task in metric.tasks:
            assert 0 <= scores.values[metric.name] <= 1


def test_fractions_increase_with_quality_and_distances_and_times_decrease():
    assert {metric.unit for metric in METRICS if metric.higher_is_better} == {"percent", "fraction", "number"}
    assert {metric.unit for metric in METRICS if not metric.higher_is_better} == {"frames", "seconds", "number"}
    of_trainings = [metric.name for metric in METRICS if not metric.per_video]
    assert of_trainings == ["mutual_consistency", "training_seconds", "inference_seconds"]


def test_titles_are_those_of_the_tables():
    titles = {metric.name: metric.title for metric in METRICS}
    assert titles["matching_score"] == "Mat Score"
    assert titles["mof_without_background"] == "MoF-BG"
    assert titles["iod_by_index"] == "iod by index"
    assert titles["boundary_error_median_frames"] == "boundary error median frames"
    assert [metric.name for metric in printed_metrics("segmentation")] == [
        "mof",
        "mof_without_background",
        "matching_score",
        "edit",
        "f1_at_10",
        "f1_at_25",
        "f1_at_50",
        "iod",
        "iou",
    ]


@pytest.mark.parametrize(
    ("unit", "scale", "decimals"),
    [("percent", 100, 1), ("fraction", 1, 3), ("frames", 1, 1), ("seconds", 1, None), ("number", 1, 3)],
)
def test_the_unit_decides_how_a_value_is_displayed(unit, scale, decimals):
    metric = Metric(name="x", unit=unit)
    assert (metric.scale, metric.decimals) == (scale, decimals)


def test_a_metric_needs_only_its_line_in_the_catalogue():
    segments = Metric(name="n_segments", measure=lambda c: c.prediction.n_segments / c.target.n_segments)
    scores = compute([segments], TRUE * 2, [*PREDICTED, Segmentation.of([0, 1], [5, 5])], ())
    assert scores.values == {"n_segments": (1 + 2 / 3) / 2}
    assert scores.undefined == {"n_segments": 0}
    assert scores.per_video == [{"n_segments": 1.0}, {"n_segments": 2 / 3}]


def test_an_unknown_metric_is_refused_and_the_nearest_is_named():
    with refused("unknown", "metric", "mfo", n=1) as refusal:
        metric_of("mfo")
    assert "'mof'" in str(refusal.problems[0])

"""All metrics of a result: name, title, unit, direction and how one recording's value is computed.

Tables, sweep files, plots and the command line read their names, titles and units from here. A new metric needs its
arithmetic, in this package, and a line in `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self

from mucon.errors import InputError, Problem, nearest
from mucon.metrics import frames, lengths, segments, transcripts
from mucon.metrics.comparison import F1_THRESHOLDS, Comparison

Unit = Literal["percent", "fraction", "frames", "seconds", "number"]
Task = Literal["segmentation", "alignment"]
SCALES: dict[Unit, float] = {"percent": 100.0, "fraction": 1.0, "frames": 1.0, "seconds": 1.0, "number": 1.0}
"""Factor from a stored value to the displayed one."""
DECIMALS: dict[Unit, int | None] = {"percent": 1, "fraction": 3, "frames": 1, "seconds": None, "number": 3}
"""Decimals of a displayed value; None for three significant digits."""
WITHOUT = "_without_background"
_BOTH: tuple[Task, ...] = ("segmentation", "alignment")


class Counted(Protocol):
    """Counts of one recording that add up over recordings, such as correct and counted frames."""

    def __add__(self, other: Self, /) -> Self: ...

    @property
    def value(self) -> float | None:
        """The metric; None if it is undefined."""

    def parts(self) -> dict[str, int]:
        """Counts to report for each recording, by short name."""


Measured = float | Counted | None
"""A metric of one recording. Floats are averaged over recordings, counts are summed first; None is undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One scalar of a result.

    Attributes:
        name: key in JSON files.
        title: column head in tables; the name without underscores by default.
        narrow_title: column head where there is little space; `title` by default.
        unit: how a value is displayed. Stored values are fractions, frames, seconds or numbers without a unit.
        higher_is_better: direction of improvement.
        per_video: each recording has a value of its own. Losses of a training have none. Measured times have none
            either: they depend on the machine and its load. No test of significance applies to them.
        tasks: tasks whose results contain it.
        printed: tasks for which `mucon evaluate` prints it, in the order of `METRICS`.
        ignores_background: `measure` receives a comparison without background.
        of_transcripts: it compares transcripts only, so recordings whose lengths are unknown have it too.
        measure: computes it for one recording; None for metrics that `mucon.metrics.scores` does not compute.
    """

    name: str
    title: str = ""
    narrow_title: str = ""
    unit: Unit = "percent"
    higher_is_better: bool = True
    per_video: bool = True
    tasks: tuple[Task, ...] = _BOTH
    printed: tuple[Task, ...] = ()
    ignores_background: bool = False
    of_transcripts: bool = False
    measure: Callable[[Comparison], Measured] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))
        object.__setattr__(self, "narrow_title", self.narrow_title or self.title)

    @property
    def scale(self) -> float:
        """Factor from the stored value to the displayed one."""
        return SCALES[self.unit]

    @property
    def decimals(self) -> int | None:
        """Decimals of the displayed value; None for three significant digits."""
        return DECIMALS[self.unit]


def _without_background(
    name: str,
    title: str,
    measure: Callable[[Comparison], Measured],
    *,
    title_without: str = "",
    narrow_title: str = "",
    tasks: tuple[Task, ...] = _BOTH,
    printed: tuple[Task, ...] = (),
    printed_without: tuple[Task, ...] = (),
    of_transcripts: bool = False,
) -> tuple[Metric, Metric]:
    """A metric and its variant without background."""
    plain = Metric(
        name=name,
        title=title,
        narrow_title=narrow_title,
        tasks=tasks,
        printed=printed,
        of_transcripts=of_transcripts,
        measure=measure,
    )
    variant = replace(
        plain,
        name=name + WITHOUT,
        title=title_without,
        narrow_title="",
        printed=printed_without,
        ignores_background=True,
    )
    return plain, variant


def _f1(threshold: float) -> tuple[Metric, Metric]:
    percent = round(100 * threshold)
    return _without_background(f"f1_at_{percent}", f"F1@{percent}", lambda c: c.f1[threshold], printed=_BOTH)


def _boundary_errors(name: str, tasks: tuple[Task, ...]) -> tuple[Metric, ...]:
    """Mean and median in frames and in seconds; `mucon.metrics.boundaries` computes them."""
    units: tuple[Literal["frames", "seconds"], ...] = ("frames", "seconds")
    return tuple(
        Metric(name=f"{name}{middle}_{unit}", unit=unit, higher_is_better=False, tasks=tasks)
        for middle in ("", "_median")
        for unit in units
    )


METRICS: tuple[Metric, ...] = (
    *_without_background(
        "mof",
        "MoF",
        lambda c: frames.correct_frames(c.true_labels, c.predicted_labels, c.ignored),
        title_without="MoF-BG",
        printed=_BOTH,
        printed_without=_BOTH,
    ),
    *_without_background(
        "moc",
        "MoC",
        lambda c: frames.correct_frames_per_class(c.true_labels, c.predicted_labels, c.ignored),
        title_without="MoC-BG",
    ),
    Metric(
        name="mof_per_video",
        title="MoF per video",
        measure=lambda c: frames.share_of_frames(c.true_labels, c.predicted_labels),
    ),
    Metric(
        name="mof_without_background_per_video",
        title="MoF-BG per video",
        ignores_background=True,
        measure=lambda c: frames.share_of_frames(c.true_labels, c.predicted_labels, c.ignored),
    ),
    Metric(
        name="matching_score",
        title="Mat Score",
        unit="fraction",
        printed=("segmentation",),
        of_transcripts=True,
        measure=lambda c: transcripts.matching_score(c.target.transcript, c.prediction.transcript),
    ),
    *_without_background(
        "edit",
        "Edit",
        lambda c: transcripts.edit_score(*c.transcripts),
        printed=("segmentation",),
        of_transcripts=True,
    ),
    *(metric for threshold in F1_THRESHOLDS for metric in _f1(threshold)),
    *_without_background("iod", "IoD", lambda c: segments.best_iod(c.overlap), printed=_BOTH),
    *_without_background("iou", "IoU", lambda c: segments.best_iou(c.overlap), printed=_BOTH),
    *_without_background(
        "iod_by_class",
        "IoD by class",
        lambda c: frames.iod_by_class(c.true_labels, c.predicted_labels, c.ignored),
    ),
    *_without_background(
        "iou_by_class",
        "IoU by class",
        lambda c: frames.iou_by_class(c.true_labels, c.predicted_labels, c.ignored),
    ),
    *_without_background(
        "iod_by_index",
        "",
        lambda c: segments.iod_by_index(c.target, c.prediction, c.ignored) if c.same_transcript else None,
        narrow_title="IoD idx",
        tasks=("alignment",),
        printed=("alignment",),
    ),
    *_without_background(
        "iou_by_index",
        "",
        lambda c: segments.iou_by_index(c.target, c.prediction, c.ignored) if c.same_transcript else None,
        narrow_title="IoU idx",
        tasks=("alignment",),
        printed=("alignment",),
    ),
    Metric(
        name="length_correlation",
        unit="number",
        measure=lambda c: lengths.length_correlation(c.target, c.prediction),
    ),
    Metric(
        name="log_length_error",
        unit="number",
        higher_is_better=False,
        measure=lambda c: lengths.log_length_error(c.target, c.prediction),
    ),
    *_boundary_errors("boundary_error", _BOTH),
    *_boundary_errors("boundary_error_by_index", ("alignment",)),
    Metric(name="mutual_consistency", title="L_mu", unit="number", higher_is_better=False, per_video=False),
    Metric(name="training_seconds", title="training, s", unit="seconds", higher_is_better=False, per_video=False),
    Metric(name="inference_seconds", title="s/video", unit="seconds", higher_is_better=False, per_video=False),
)
"""Every scalar of a result, in the order in which tables print them. Times: training in all, inference per video.

`mutual_consistency` is L_mu on the training recordings, the mean over the last epoch.
"""

PER_ACTION: tuple[Metric, ...] = (Metric(name="recall"), Metric(name="precision"))
"""Metrics with one value per action, see `mucon.metrics.confusion`; no column of a table can contain them."""

_BY_NAME = {metric.name: metric for metric in METRICS}


def metric_of(name: str) -> Metric:
    """The metric of a name.

    Raises:
        InputError: unknown name.

    >>> metric_of("matching_score").title, metric_of("boundary_error_frames").higher_is_better
    ('Mat Score', False)
    """
    if name not in _BY_NAME:
        message = f"unknown metric {name!r}{nearest(name, list(_BY_NAME))}"
        raise InputError(Problem(rule="unknown", place="metric", value=name, message=message))
    return _BY_NAME[name]


def printed_metrics(task: Task) -> tuple[Metric, ...]:
    """The columns of the table of `mucon evaluate`.

    >>> [metric.narrow_title for metric in printed_metrics("alignment")]
    ['MoF', 'MoF-BG', 'F1@10', 'F1@25', 'F1@50', 'IoD', 'IoU', 'IoD idx', 'IoU idx']
    """
    return tuple(metric for metric in METRICS if task in metric.printed)

"""Rows and columns of a table, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from mucon.configuration import DEFAULT_METHOD
from mucon.errors import InputError
from mucon.metrics.catalogue import Unit, metric_of
from sweeps.service.spec.problems import unknown

Prediction = Literal["frames", "segments", "full"]


def check_prediction(name: str) -> None:
    """Checks the name of a prediction, which names files.

    Raises:
        InputError: unknown prediction.
    """
    if name not in get_args(Prediction):
        raise InputError(unknown("prediction", "prediction", name, get_args(Prediction)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A metric that a table shows.

    Attributes:
        metric: name of a metric of the catalogue, see `mucon.metrics.catalogue`.
        prediction: `frames`, `segments` or `full`.
        title: the column's head; the catalogue's title by default.
        unit: `percent` (one decimal), `fraction` (three decimals), `seconds` (three significant digits), `frames`
            (one decimal) or `number` (three decimals); the catalogue's unit by default.

    Raises:
        InputError: unknown metric, prediction or unit.
    """

    metric: str
    prediction: Prediction = "full"
    title: str = ""
    unit: Unit | None = None

    def __post_init__(self) -> None:
        check_prediction(self.prediction)
        metric = metric_of(self.metric)
        if self.unit is not None and self.unit not in get_args(Unit):
            raise InputError(unknown("unit", "unit", self.unit, get_args(Unit)))
        object.__setattr__(self, "title", self.title or metric.title)
        object.__setattr__(self, "unit", self.unit or metric.unit)

    @property
    def shown_unit(self) -> Unit:
        """The unit in which values are printed."""
        assert self.unit is not None  # set in __post_init__
        return self.unit

    @property
    def higher_is_better(self) -> bool:
        """Direction of the metric."""
        return metric_of(self.metric).higher_is_better

    @property
    def is_tested(self) -> bool:
        """Whether tests compare rows by it; measured times depend on the machine and its load."""
        return metric_of(self.metric).per_video

    def better(self, value: float, other: float) -> bool:
        """Whether a value is better than another, by more than rounding."""
        return (value - other if self.higher_is_better else other - value) > 1e-9

    def of(self, row: Variant) -> tuple[Prediction, str]:
        """Prediction and metric that the column shows in a row."""
        return row.prediction or self.prediction, self.metric


MOF = Column(metric="mof")
MATCHING_SCORE = Column(metric="matching_score")
EDIT = Column(metric="edit")
MOF_WITHOUT_BACKGROUND = Column(metric="mof_without_background")
TRAINING_SECONDS = Column(metric="training_seconds")
INFERENCE_SECONDS = Column(metric="inference_seconds")
MOF_OF_FRAMES = Column(metric="mof", prediction="frames", title="MoF frames")
F1 = (Column(metric="f1_at_10"), Column(metric="f1_at_25"), Column(metric="f1_at_50"))

MUCON_COLUMNS = (
    MOF,
    MATCHING_SCORE,
    *F1,
    MOF_OF_FRAMES,
    Column(metric="mof", prediction="segments", title="MoF segments"),
)
"""The columns of the paper's Table 1b, and the accuracy of either branch alone."""


FULL_SUPERVISION_COLUMNS = (*F1, EDIT, MOF, MOF_OF_FRAMES)
"""The paper's columns for full supervision, and the accuracy of the frame branch alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A row of the table.

    Attributes:
        labels: one text for each of the experiment's `label_titles`.
        settings: configuration path -> value, on top of the base.
        method: name of the method that is trained, see `mucon.methods`.
        prediction: prediction that all columns of the row show; None for the columns' own predictions.
        task: `segmentation`, or `alignment`, which uses the true transcripts of the test videos.

    Raises:
        InputError: unknown prediction.
    """

    labels: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    method: str = DEFAULT_METHOD
    prediction: Prediction | None = None
    task: Literal["segmentation", "alignment"] = "segmentation"

    def __post_init__(self) -> None:
        if self.prediction is not None:
            check_prediction(self.prediction)

    @property
    def name(self) -> str:
        """The labels as one text."""
        return ", ".join(self.labels)

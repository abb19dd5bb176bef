"""Rows and columns of a table, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Prediction = Literal["frames", "segments", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A number that a table shows.

    Attributes:
        title: the column's head.
        metric: name of the score, as `mof`, or `inference_seconds` for a video, or `training_seconds`.
        prediction: `frames`, `segments` or `full`.
        unit: `percent` shows one decimal of a hundred, `fraction` three decimals of one, `seconds` three digits,
            `frames` one decimal.
    """

    title: str
    metric: str
    prediction: Prediction = "full"
    unit: Literal["percent", "fraction", "seconds", "frames"] = "percent"

    @property
    def higher_is_better(self) -> bool:
        """Of scores; of times and of boundary errors the lower one is."""
        return self.unit in ("percent", "fraction")

    def better(self, value: float, other: float) -> bool:
        """Whether a value is better than another, by more than rounding."""
        return (value - other if self.higher_is_better else other - value) > 1e-9

    def of(self, row: Variant) -> tuple[Prediction, str]:
        """Whose score stands in a row: prediction and metric."""
        return row.prediction or self.prediction, self.metric


MOF = Column(title="MoF", metric="mof")
MATCHING_SCORE = Column(title="Mat Score", metric="matching_score", unit="fraction")
EDIT = Column(title="Edit", metric="edit")
MOF_WITHOUT_BACKGROUND = Column(title="MoF-BG", metric="mof_without_background")
TRAINING_SECONDS = Column(title="training, s", metric="training_seconds", unit="seconds")
INFERENCE_SECONDS = Column(title="s/video", metric="inference_seconds", unit="seconds")
MOF_OF_FRAMES = Column(title="MoF frames", metric="mof", prediction="frames")
F1 = (
    Column(title="F1@10", metric="f1_at_10"),
    Column(title="F1@25", metric="f1_at_25"),
    Column(title="F1@50", metric="f1_at_50"),
)

MUCON_COLUMNS = (
    MOF,
    MATCHING_SCORE,
    *F1,
    MOF_OF_FRAMES,
    Column(title="MoF segments", metric="mof", prediction="segments"),
)
"""The paper's columns of Table 1b, and the accuracy of either branch alone."""


FULL_SUPERVISION_COLUMNS = (
    *F1,
    EDIT,
    MOF,
    MOF_OF_FRAMES,
)
"""The paper's columns for full supervision, and the accuracy of the frame branch alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A row of the table.

    Attributes:
        labels: what stands in the row, one text for each of the experiment's `label_titles`.
        settings: configuration path -> value, on top of the base.
        prediction: the one that the row is about, in the place of the columns' own.
        task: `segmentation`, or `alignment`, where the network is given the test videos' transcripts.
    """

    labels: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    prediction: Prediction | None = None
    task: Literal["segmentation", "alignment"] = "segmentation"

    @property
    def name(self) -> str:
        """The labels as one text."""
        return ", ".join(self.labels)


TIMES = ("training_seconds", "inference_seconds")
"""What a result says beside its scores. They depend on the machine and on what else it did: no test is made of them."""

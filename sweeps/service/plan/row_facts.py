"""How the rows of a table are trained and predicted, as far as tables of several methods say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mucon.configuration import Config
from mucon.method import models_of, training_of
from mucon.methods import method_named
from sweeps.service.spec.columns import Variant
from sweeps.service.trials.json_files import misfit
from sweeps.service.trials.trial import Trial

SHAPE = {"supervision": str, "passes": int, "schedule": str, "is_main": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """What is said of a row.

    Attributes:
        supervision: what the method is trained from, as text.
        passes: passes over the training videos that it visits.
        schedule: `training.schedule` as it was asked for; empty for a method without that setting.
        is_main: whether the row shows the prediction that its method is known for, decoded as its base says.
    """

    supervision: str
    passes: int
    schedule: str = ""
    is_main: bool = False

    @classmethod
    def of(cls, row: Variant, trial: Trial, asked: Config) -> Self:
        """The facts of a row, by any of its trials.

        Args:
            row: the row.
            trial: one of its trials.
            asked: the configuration of the row, before anything depends on the number of training videos.
        """
        is_decoded_otherwise = any(path.startswith("decoding.") for path in row.settings)
        return cls(
            supervision=supervision(
                trial.training.labelled, is_taught="training.labels_from" in models_of(trial.config)
            ),
            passes=trial.training.last_epoch,
            schedule=str(getattr(training_of(asked), "schedule", "")),
            is_main=row.prediction == method_named(row.method).main and not is_decoded_otherwise,
        )

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`.

        Raises:
            ValueError: other values.
        """
        if wrong := misfit(value, SHAPE):
            raise ValueError(f"facts: {wrong}")
        return cls(**{name: value[name] for name in SHAPE})


def supervision(labelled: float, *, is_taught: bool = False) -> str:
    """What a training uses of the annotations.

    Args:
        labelled: share of the videos whose frame labels it uses.
        is_taught: a model predicts the labels of the others.

    >>> supervision(0.0), supervision(0.1), supervision(1.0), supervision(0.0, is_taught=True)
    ('transcripts', 'frame labels (10 %)', 'frame labels', 'predicted labels')
    """
    share = "frame labels" if labelled == 1 else f"frame labels ({100 * labelled:.3g} %)"
    if is_taught:
        return f"predicted labels, {share}" if labelled else "predicted labels"
    return share if labelled else "transcripts"

"""Complete configurations, as functions. A run records its configuration in config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mucon.config import BackboneConfig, LossConfig, MaskConfig, SegmentBranchConfig, TrainConfig
from mucon.decoding.config import DecodingConfig
from mucon.extensions.config import SelfTrainingConfig
from mucon.training_config import TrainingConfig


def weak() -> TrainConfig:
    """Training from transcripts, with the paper's settings for Breakfast (section 5.2); the default."""
    return TrainConfig()


def full() -> TrainConfig:
    """Full or mixed supervision: fewer epochs, since it converges faster (paper, Breakfast, section 5.2).

    By default all training videos are labelled; set `training.labelled` for mixed supervision.
    """
    return TrainConfig(training=TrainingConfig(epochs=110, labelled=1.0, lr_drop_fraction=70 / 110))


def short_videos() -> TrainConfig:
    """Training from transcripts of shorter videos, mostly background (paper, Hollywood Extended, section 5.2)."""
    return TrainConfig(
        backbone=BackboneConfig(pool_after=(1, 2, 4)),
        loss=LossConfig(length=1.0),
        training=TrainingConfig(lr_drop_fraction=60 / 150),
    )


def small() -> TrainConfig:
    """Training from the transcripts of few recordings, with a context of 94 frames instead of the whole recording.

    A backbone that sees the whole recording can learn where in the protocol a frame lies, and agree with any masks.
    """
    return TrainConfig(
        backbone=BackboneConfig(n_layers=4, pool_after=(1, 2, 3)),
        training=TrainingConfig(epochs=60, lr_drop_fraction=40 / 60),
    )


def best() -> TrainConfig:
    """Training from transcripts beyond the paper: the context of `small`, and self-training after 45 % of the run.

    Decoding has equal lengths as its prior. Context, phases and prior were chosen on training subjects that were held
    out, see "Beyond the paper" in `docs/results.md`. Nothing here is knowledge of one data set, such as the share of
    its background.
    """
    return TrainConfig(
        backbone=small().backbone,
        training=TrainingConfig(epochs=30),
        self_training=SelfTrainingConfig(start=0.45, divided=4),
        decoding=DecodingConfig(length_prior="equal"),
    )


def published_program() -> TrainConfig:
    """The choices of the authors' program that differ from the paper or from our defaults.

    Its decoder has steps of 30 frames; for short recordings, set decoding.step or decoding.method=exact.
    """
    return TrainConfig(
        mask=MaskConfig(corner_aligned=True, overlap_rule="published"),
        loss=LossConfig(
            normalise="stretched_length",
            smoothing_rule="after_mean",
            supervised_length_rule="share",
            length_on_labelled=True,
        ),
        decoding=DecodingConfig(method="published", length_prior="class"),
    )


def demo() -> TrainConfig:
    """A small network with little pooling and a short schedule, for the made-up recordings of the demo.

    The run has less than a thousand steps, so it needs a larger learning rate and a later drop than the paper's
    hundreds of thousands.
    """
    return TrainConfig(
        backbone=BackboneConfig(channels=64, n_layers=6, pool_after=(1, 2)),
        segment_branch=SegmentBranchConfig(hidden=64),
        training=TrainingConfig(epochs=14, learning_rate=0.03, lr_drop_fraction=0.7),
    )


breakfast, breakfast_full, hollywood = weak, full, short_videos
"""Former names."""

RECIPES: Mapping[str, Callable[[], TrainConfig]] = MappingProxyType(
    {
        **{recipe.__name__: recipe for recipe in (weak, full, short_videos, demo, published_program, small, best)},
        **{"breakfast": weak, "breakfast_full": full, "hollywood": short_videos},
    }
)
"""The default recipe first; former names at the end, for the same functions."""

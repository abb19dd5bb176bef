"""MuCon's configuration: small frozen configs, each defined beside the module that uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from mucon.configuration import Config, convert, field_types, flatten, parse_settings, setting_text
from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError, Problem
from mucon.losses import LossConfig
from mucon.masks import MaskConfig
from mucon.model.backbone import BackboneConfig
from mucon.model.segment_branch import SegmentBranchConfig
from mucon.training_config import TrainingConfig

__all__ = ["Config", "TrainConfig", "convert", "field_types", "flatten", "parse_settings", "setting_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(Config):
    """Everything that determines a run of MuCon besides its data.

    Attributes:
        seed: random seed for initialization, shuffling and dropout.

    >>> TrainConfig().override("mask.shape", "bell").mask.shape
    'bell'
    """

    NOT_TRAINED: ClassVar[tuple[str, ...]] = (
        "decoding",
        "training.precision",
        "training.progress_every",
        "training.progress_videos",
        "training.threads",
    )

    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    segment_branch: SegmentBranchConfig = field(default_factory=SegmentBranchConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(Problem(rule="range", place="seed", value=self.seed, expected="at least 0"))

    def unused(self) -> tuple[str, ...]:
        """An absolute epoch takes precedence over the fraction at which the learning rate drops."""
        return () if self.training.lr_drop_epoch is None else ("training.lr_drop_fraction",)

"""MuCon's configuration: small frozen configs, each defined beside the module that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from mucon.configuration import Config, convert, field_types, flatten, parse_settings, setting_text
from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError, Problem
from mucon.losses import LossConfig
from mucon.masks import MaskConfig
from mucon.model.backbone import BackboneConfig
from mucon.model.segment_branch import SegmentBranchConfig
from mucon.training_config import DROP_FRACTIONS, TrainingConfig

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

    def canonical(self, *, labelled: bool | None = None) -> Self:
        """See `Config.canonical`; teacher forcing and an unusual drop of the rate are whole numbers of epochs."""
        plain = self.with_defaults(self.without_effect(labelled))
        training, epochs = plain.training, plain.training.epochs
        values: dict[str, Any] = {
            "training.teacher_forcing": training.forced_epochs / epochs,
            "training.lr_drop_fraction": DROP_FRACTIONS[0],
            "training.lr_drop_epoch": None,
        }
        usual = [share for share in DROP_FRACTIONS if round(share * epochs) == training.drop_after]
        if training.lr_drop_factor == 1 or training.drop_after >= epochs:
            values["training.lr_drop_factor"] = 1.0
        elif usual:
            values["training.lr_drop_fraction"] = usual[0]
        else:
            values["training.lr_drop_epoch"] = training.drop_after
        return plain.with_values(values)

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Paths of settings without effect beside the others; see `Config.without_effect`."""
        loss, mask = self.loss, self.mask
        if labelled is None:
            labelled = self.training.labelled > 0
        if not self.backbone.pool_after:
            yield "backbone.upsampling"
        if self.backbone.kind == "single":
            yield "backbone.dilation"
        if loss.mutual_consistency == 0:
            yield from (path for path in field_types(TrainConfig) if path.startswith("mask."))
            yield "loss.consistency"
        elif mask.overlap == 0:
            yield "mask.overlap_rule"
        if loss.mutual_consistency == 0 or loss.consistency == "frame":
            yield from ("loss.over_segments", "loss.normalise", "loss.detach_length")
        elif loss.normalise == "stretched_length" and mask.overlap == 0:
            yield "loss.normalise"
        if loss.length == 0:
            yield from ("loss.length_width", "loss.length_on_labelled")
        if loss.smoothing == 0:
            yield from ("loss.smoothing_threshold", "loss.smoothing_rule", "loss.smoothing_detached")
        if not labelled:
            yield from ("loss.frame", "loss.supervised_length", "loss.length_on_labelled")
        if not labelled or loss.supervised_length == 0:
            yield "loss.supervised_length_rule"

"""MuCon's configuration: frozen values, one for each part; they can be read without torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self

from mucon.configuration import Config, convert, field_types, flatten, parse_settings, setting_text
from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError, Problem, check_ranges
from mucon.extensions.config import (
    AugmentationConfig,
    PrototypesConfig,
    SelfTrainingConfig,
    SoftAlignmentConfig,
    VideoLevelConfig,
)
from mucon.training_config import DROP_FRACTIONS, TrainingConfig

__all__ = ["Config", "TrainConfig", "convert", "field_types", "flatten", "parse_settings", "setting_text"]


MaskShape = Literal["box", "bell", "trapezoid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneConfig:
    """Size of the temporal backbone.

    Attributes:
        kind: `dilated`: residual layers of one dilated convolution each (paper). `dual_dilated`: of two, with
            increasing and decreasing dilations (first stage of MS-TCN++). `single`: only the first convolution of
            width 1 and the pooling.
        channels: D', width of every layer and of the latent sequence.
        n_layers: residual layers; `single` has identities instead, so that `pool_after` applies to it.
        dilation: dilation of layer i, from 0: `exponential` 2**i, `linear` i + 1, `fixed` 1.
        pool_after: 0-based layers after which neighbouring frames are pooled in pairs.
        dropout: probability in each residual layer and on the latent sequence.
        n_groups: groups of the group norm.
        upsampling: latent frame of frame t. `nearest`: floor(t T' / T), which distributes the frames of an odd tail
            over the recording. `stride`: t // pooling, and the last one for the tail; the borders are then exactly
            those of the pooling, which matters in short recordings.

    Raises:
        InputError: a value outside its range.
    """

    PLACE: ClassVar[str] = "backbone."
    """Where the settings are in a configuration, for problems."""

    kind: Literal["dilated", "dual_dilated", "single"] = "dilated"
    channels: int = 128
    n_layers: int = 11
    dilation: Literal["exponential", "linear", "fixed"] = "exponential"
    pool_after: tuple[int, ...] = (1, 2, 4, 8)
    dropout: float = 0.25
    n_groups: int = 32
    upsampling: Literal["nearest", "stride"] = "nearest"

    def __post_init__(self) -> None:
        divides = self.n_groups >= 1 and self.channels % self.n_groups == 0
        layers = list(self.pool_after)
        ascending = layers == sorted(set(layers)) and all(0 <= layer < self.n_layers for layer in layers)
        check_ranges(
            self.PLACE,
            [
                ("channels", self.channels, "at least 1", self.channels >= 1),
                ("n_groups", self.n_groups, f"a divisor of {self.PLACE}channels ({self.channels})", divides),
                ("n_layers", self.n_layers, "at least 1", self.n_layers >= 1),
                ("pool_after", layers, f"distinct ascending layers from 0 to {self.n_layers - 1}", ascending),
                ("dropout", self.dropout, "at least 0 and below 1", 0 <= self.dropout < 1),
            ],
        )

    @property
    def pooling(self) -> int:
        """Frames per latent frame, 2 ** number of poolings."""
        return int(2 ** len(self.pool_after))

    @property
    def dilations(self) -> tuple[int, ...]:
        """Dilation of each layer, in order."""
        if self.dilation == "fixed":
            return (1,) * self.n_layers
        return tuple(i + 1 if self.dilation == "linear" else int(2**i) for i in range(self.n_layers))

    @property
    def reach(self) -> int:
        """Frames before, and as many after, a latent frame's own frames on which it depends.

        It is that of the convolutions and poolings; the group norm also uses the mean and the variance of the whole
        recording.
        """
        if self.kind == "single":
            return 0
        dilations = self.dilations
        if self.kind == "dual_dilated":
            dilations = tuple(map(max, dilations, reversed(dilations)))
        strides = [int(2 ** sum(layer < i for layer in self.pool_after)) for i in range(self.n_layers)]
        return sum(dilation * stride for dilation, stride in zip(dilations, strides, strict=True))

    @property
    def receptive_field(self) -> int:
        """Frames on which a latent frame depends: its own and `reach` on either side."""
        return self.pooling + 2 * self.reach


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBranchConfig:
    """Size of the segment branch.

    Attributes:
        hidden: width of the encoder in each direction, of the decoder and of the symbols' embedding.
        dropout: probability on the embedded symbols.

    Raises:
        InputError: a value outside its range.
    """

    hidden: int = 128
    dropout: float = 0.25

    def __post_init__(self) -> None:
        check_ranges(
            "segment_branch.",
            [
                ("hidden", self.hidden, "at least 2", self.hidden >= 2),
                ("dropout", self.dropout, "at least 0 and below 1", 0 <= self.dropout < 1),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskConfig:
    """Shape and sampling of the segment masks.

    Attributes:
        shape: template: `box`, `bell` (Gaussian) or `trapezoid`.
        overlap: share of the segment's length by which its mask extends beyond each end, 0 <= overlap < 1.
        overlap_rule: `symmetric`: length l(1 + 2·overlap), start p - overlap·l. `published`: the same length, start
            p - overlap/2 of the stretched length (6 % on the left and 14 % on the right for 0.1).
            Deviation: the default follows the paper's figure, which is symmetric.
        corner_aligned: use the sampling rule of the published program (PyTorch 1.1).
        n_samples: samples J of the template.
        min_ramp_frames: minimum width of a ramp at a segment's end in frames; 0 for l/J at any length. For segments
            shorter than 100 frames a ramp of l/J is between two frames, so that no frame gives its border a gradient.

    Raises:
        InputError: a value outside its range.
    """

    shape: MaskShape = "box"
    overlap: float = 0.0
    overlap_rule: Literal["symmetric", "published"] = "symmetric"
    corner_aligned: bool = False
    n_samples: int = 100
    min_ramp_frames: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(
            "mask.",
            [
                ("overlap", self.overlap, "at least 0 and below 1", 0 <= self.overlap < 1),
                ("n_samples", self.n_samples, "at least 4", self.n_samples >= 4),
                ("min_ramp_frames", self.min_ramp_frames, "at least 0", self.min_ramp_frames >= 0),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """Weights of the terms, and choices that the paper does not specify. A weight of 0 disables a term.

    Attributes:
        mutual_consistency: weight of L_mu.
        transcript: weight of L_t.
        length: alpha, weight of the length regulariser.
        smoothing: beta, weight of the smoothing loss.
        over_segments: reduction of L_mu over the segments. Deviation: the paper sums; the published program, and so
            the published numbers, use the mean. `length`: mean weighted by the lengths, without gradient and within a
            factor of 4 of T/M: the gradient through the divisor l'_m is otherwise stronger for short segments, which
            then grow at the expense of long ones.
        background_weight: weight of the background's segments in L_mu; 1 (paper) is that of the others.
        normalise: divisor of L_mu's summed logits: `length` (l'_m, the paper), `stretched_length` (including the
            overlap, the published program) or `mask_sum` (the sum of the mask over the frames).
        detach_length: no gradient through that divisor.
        consistency: `segment`: cross-entropy of averaged logits, equation (2); `frame`: masked cross-entropy of each
            frame, summed over segments and divided by T (the published program's alternative).
        length_width: w; log lengths in [-w, w] have no cost.
        smoothing_threshold: tau.
        smoothing_rule: `per_term`: mean of min(tau, |difference|)² (paper). `after_mean`: mean of the squares, limited
            to tau² (published program).
        smoothing_detached: no gradient through the earlier frame. Deviation: the paper does not detach it.
        frame: weight of the frame cross-entropy of labelled videos.
        supervised_length: weight of the length loss of labelled videos.
        supervised_length_rule: `log`: relative log lengths (paper), each side centred by its mean. `share`: shares of
            the video (published program).
        length_on_labelled: apply the length regulariser L_l to labelled videos too. Deviation: the paper does not
            specify it; in 28 % of Breakfast's videos the true log lengths differ by more than 4, which w = 2 would
            penalise.
    """

    mutual_consistency: float = 1.0
    transcript: float = 1.0
    length: float = 0.1
    smoothing: float = 0.1
    over_segments: Literal["mean", "sum", "length"] = "mean"
    background_weight: float = 1.0
    normalise: Literal["length", "stretched_length", "mask_sum"] = "length"
    detach_length: bool = False
    consistency: Literal["segment", "frame"] = "segment"
    length_width: float = 2.0
    smoothing_threshold: float = 4.0
    smoothing_rule: Literal["per_term", "after_mean"] = "per_term"
    smoothing_detached: bool = True
    frame: float = 1.0
    supervised_length: float = 1.0
    supervised_length_rule: Literal["log", "share"] = "log"
    length_on_labelled: bool = False

    def __post_init__(self) -> None:
        numbers = [(f.name, getattr(self, f.name)) for f in fields(self) if f.type == "float"]
        check_ranges(
            "loss.",
            [
                *((name, value, "at least 0", value >= 0) for name, value in numbers if name != "background_weight"),
                ("background_weight", self.background_weight, "above 0", self.background_weight > 0),
            ],
        )


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
        "training.device_resident",
        "training.label_free_videos",
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
    self_training: SelfTrainingConfig = field(default_factory=SelfTrainingConfig)
    soft_alignment: SoftAlignmentConfig = field(default_factory=SoftAlignmentConfig)
    video_level: VideoLevelConfig = field(default_factory=VideoLevelConfig)
    prototypes: PrototypesConfig = field(default_factory=PrototypesConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(Problem(rule="range", place="seed", value=self.seed, expected="at least 0"))

    @property
    def schedule(self) -> TrainingConfig:
        """The settings of the optimisation, with the drop of the rate where self-training puts it."""
        training = self.training
        if not self.self_training.begins(training.epochs):
            return training
        return replace(training, lr_drop_epoch=self.self_training.first_epochs(training.epochs)["consolidate"])

    def canonical(self, *, labelled: bool | None = None) -> Self:
        """See `Config.canonical`; phases, teacher forcing and an unusual drop of the rate are whole epochs."""
        plain = self.with_defaults(self.without_effect(labelled))
        training, epochs = plain.schedule, plain.training.epochs
        is_self_trained = plain.self_training.begins(epochs)
        values: dict[str, Any] = {
            "training.teacher_forcing": training.forced_epochs / epochs,
            "training.lr_drop_fraction": DROP_FRACTIONS[0],
            "training.lr_drop_epoch": None,
        }
        usual = [share for share in DROP_FRACTIONS if round(share * epochs) == training.drop_after]
        if training.lr_drop_factor == 1 or training.drop_after >= epochs:
            values["training.lr_drop_factor"] = 1.0
        elif is_self_trained:
            pass
        elif usual:
            values["training.lr_drop_fraction"] = usual[0]
        else:
            values["training.lr_drop_epoch"] = training.drop_after
        if is_self_trained:
            values |= plain.self_training.canonical_values(epochs)
        if plain.video_level.weight > 0:
            values["video_level.alone"] = round(plain.video_level.alone * epochs) / epochs
        return plain.with_values(values)

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """Paths of settings without effect beside the others; see `Config.without_effect`."""
        loss, mask = self.loss, self.mask
        if labelled is None:
            labelled = self.training.labelled > 0
        if self.training.last_epoch == self.training.epochs:
            yield "training.stop_after"
        if not self.backbone.pool_after:
            yield "backbone.upsampling"
        if self.backbone.kind == "single":
            yield "backbone.dilation"
        if loss.mutual_consistency == 0:
            yield from ("loss.consistency", "loss.background_weight")
        if loss.mutual_consistency == 0 and self.prototypes.weight == 0:
            yield from (path for path in field_types(TrainConfig) if path.startswith("mask."))
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
        own, epochs = self.self_training, self.training.epochs
        if own.begins(epochs):
            yield from own.without_effect(epochs)
        unused = {
            "self_training": not own.begins(epochs),
            "soft_alignment": not own.begins(epochs) or self.soft_alignment.weight == 0,
            "video_level": self.video_level.weight == 0,
            "prototypes": self.prototypes.weight == 0,
        }
        yield from (path for path in field_types(TrainConfig) if unused.get(path.partition(".")[0]))
        has_own_lengths = own.begins(epochs) and own.supervised_length > 0
        if not has_own_lengths and (not labelled or loss.supervised_length == 0):
            yield "loss.supervised_length_rule"

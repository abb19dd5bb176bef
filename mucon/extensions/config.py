"""Settings of the options that the paper does not have; each group is off by default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mucon.errors import check_ranges

LabelPrior = Literal["none", "poisson", "negative_binomial"]
Phase = Literal["settle", "divided", "consolidate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTrainingConfig:
    """Training on labels that the network gives to its own training videos, in phases.

    After plain training, each video that is not labelled gets the exact alignment of its transcript as labels, with
    which its frames are compared as those of a labelled video. The phases `settle` and `consolidate` align to the
    frames' log probabilities. The phase `divided` subtracts from them the log share of each action in the frames of
    the last labels, which takes frames from actions that claim too many. Deviation: the paper has no such training.

    With it, the learning rate drops when `consolidate` begins, and the drop of `training.lr_drop_epoch` and
    `training.lr_drop_fraction` has no effect.

    Attributes:
        start: share of the run that is plain training, from its start; 1 for no self-training.
        settle: share of the run of the phase `settle`.
        divided: number of epochs of the phase `divided`. The rest of the run is `consolidate`.
        weight: weight of the frame cross-entropy with the network's own labels.
        supervised_length: weight of the length loss with their lengths.
        refresh: number of epochs in which labels are kept; each phase begins with new ones.
        settle_prior: length prior of the alignments of a phase: `none`, or a `poisson` or `negative_binomial`
            distribution (of spread 1) about the mean length of each action in the last labels.
        divided_prior: see `settle_prior`.
        consolidate_prior: see `settle_prior`.

    Raises:
        InputError: a value outside its range.
    """

    start: float = 1.0
    settle: float = 0.25
    divided: int = 2
    weight: float = 1.0
    supervised_length: float = 0.0
    refresh: int = 1
    settle_prior: LabelPrior = "none"
    divided_prior: LabelPrior = "poisson"
    consolidate_prior: LabelPrior = "negative_binomial"

    def __post_init__(self) -> None:
        check_ranges(
            "self_training.",
            [
                ("start", self.start, "from 0 to 1", 0 <= self.start <= 1),
                ("settle", self.settle, "from 0 to 1", 0 <= self.settle <= 1),
                ("divided", self.divided, "at least 0", self.divided >= 0),
                ("weight", self.weight, "at least 0", self.weight >= 0),
                ("supervised_length", self.supervised_length, "at least 0", self.supervised_length >= 0),
                ("refresh", self.refresh, "at least 1", self.refresh >= 1),
            ],
        )

    def first_epochs(self, epochs: int) -> dict[Phase, int]:
        """The epoch, counted from 0, with which each phase of a run begins; an empty phase begins with the next one.

        >>> SelfTrainingConfig(start=0.45).first_epochs(17)
        {'settle': 8, 'divided': 12, 'consolidate': 14}
        """
        plain = round(self.start * epochs)
        settled = min(plain + round(self.settle * epochs), epochs)
        return {"settle": plain, "divided": settled, "consolidate": min(settled + self.divided, epochs)}

    def begins(self, epochs: int) -> bool:
        """Whether a run of so many epochs has any self-training."""
        return self.first_epochs(epochs)["settle"] < epochs

    def phase(self, epoch: int, epochs: int) -> Phase | None:
        """The phase of an epoch, counted from 0; None during plain training.

        >>> [SelfTrainingConfig(start=0.25, settle=0.25, divided=1).phase(epoch, 4) for epoch in range(4)]
        [None, 'settle', 'divided', 'consolidate']
        """
        begun: list[Phase] = [phase for phase, first in self.first_epochs(epochs).items() if first <= epoch]
        return begun[-1] if begun else None

    def refreshes(self, epoch: int, epochs: int) -> bool:
        """Whether an epoch of self-training begins with new labels."""
        phase = self.phase(epoch, epochs)
        return phase is not None and (epoch - self.first_epochs(epochs)[phase]) % self.refresh == 0

    def prior(self, phase: Phase) -> LabelPrior:
        """The length prior of a phase."""
        priors: dict[Phase, LabelPrior] = {
            "settle": self.settle_prior,
            "divided": self.divided_prior,
            "consolidate": self.consolidate_prior,
        }
        return priors[phase]

    def canonical_values(self, epochs: int) -> dict[str, float]:
        """The lengths of the phases of a run by path, in the form that all settings with the same epochs share."""
        first = self.first_epochs(epochs)
        return {
            "self_training.start": first["settle"] / epochs,
            "self_training.settle": (first["divided"] - first["settle"]) / epochs,
            "self_training.divided": first["consolidate"] - first["divided"],
        }

    def without_effect(self, epochs: int) -> Iterator[str]:
        """Paths of priors of phases that a run does not have."""
        first = self.first_epochs(epochs)
        ends = (*list(first.values())[1:], epochs)
        for (phase, begin), end in zip(first.items(), ends, strict=True):
            if begin == end:
                yield f"self_training.{phase}_prior"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftAlignmentConfig:
    """A loss of the alignments near the network's own labels, in the epochs of self-training.

    Each boundary between two segments may also lie `window` frames earlier or later; the loss is a soft minimum over
    all these alignments. With `self_training.weight=0` it takes the place of the labels.
    Source: the forward loss of Li, Lei and Todorovic, ICCV 2019. Deviation: the paper has no such loss.

    Attributes:
        weight: weight of the loss; 0 for none.
        window: frames; None for a 20th of the mean length of the video's segments, at least 1.
        temperature: divisor of the alignments' energies in the first epoch of self-training. It falls to 1 in the last
            one, by the same factor in each epoch.

    Raises:
        InputError: a value outside its range.
    """

    weight: float = 0.0
    window: int | None = None
    temperature: float = 4.0

    def __post_init__(self) -> None:
        check_ranges(
            "soft_alignment.",
            [
                ("weight", self.weight, "at least 0", self.weight >= 0),
                ("window", self.window, "at least 1, or none", self.window is None or self.window >= 1),
                ("temperature", self.temperature, "at least 1", self.temperature >= 1),
            ],
        )

    def frames(self, n_frames: int, n_segments: int) -> int:
        """The window of a video of T frames and M segments."""
        return self.window or max(1, n_frames // (20 * n_segments))

    def temperature_of(self, epoch: int, first: int, epochs: int) -> float:
        """The temperature of an epoch, counted from 0.

        Args:
            epoch: at least `first`.
            first: first epoch of self-training.
            epochs: of the run.

        >>> [round(SoftAlignmentConfig().temperature_of(epoch, 7, 10), 3) for epoch in (7, 8, 9)]
        [4.0, 2.0, 1.0]
        """
        done = (epoch - first) / max(epochs - 1 - first, 1)
        return float(self.temperature ** (1 - done))


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLevelConfig:
    """A loss of the whole video: which actions occur in it, from the highest logits of each action over time.

    Source: Xu and Zheng, "Efficient and Effective Weakly-Supervised Action Segmentation via Action-Transition-Aware
    Boundary Alignment", CVPR 2024. Deviation: the paper of MuCon has no such loss, and theirs uses class tokens.

    Attributes:
        weight: weight of the binary cross-entropy of the actions' presence; 0 for none.
        alone: share of the run, from its start, in which no other loss counts.
        top: share of the latent frames, the highest of each action, over which its logit is averaged.

    Raises:
        InputError: a value outside its range.
    """

    weight: float = 0.0
    alone: float = 0.1
    top: float = 0.125

    def __post_init__(self) -> None:
        check_ranges(
            "video_level.",
            [
                ("weight", self.weight, "at least 0", self.weight >= 0),
                ("alone", self.alone, "from 0 to 1", 0 <= self.alone <= 1),
                ("top", self.top, "above 0 and at most 1", 0 < self.top <= 1),
            ],
        )

    def is_alone(self, epoch: int, epochs: int) -> bool:
        """Whether no other loss counts in an epoch, counted from 0."""
        return self.weight > 0 and epoch < round(self.alone * epochs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrototypesConfig:
    """A loss that compares the mean latent frame of each action of a video with a prototype of every action.

    The mean is weighted by the segment masks. A prototype is the running mean of such means. Deviation: the paper has
    no such loss.

    Attributes:
        weight: weight of the cross-entropy over the prototypes; 0 for none.
        decay: share of a prototype that remains at each video with its action.
        temperature: divisor of the cosines.

    Raises:
        InputError: a value outside its range.
    """

    weight: float = 0.0
    decay: float = 0.99
    temperature: float = 0.2

    def __post_init__(self) -> None:
        check_ranges(
            "prototypes.",
            [
                ("weight", self.weight, "at least 0", self.weight >= 0),
                ("decay", self.decay, "at least 0 and below 1", 0 <= self.decay < 1),
                ("temperature", self.temperature, "above 0", self.temperature > 0),
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentationConfig:
    """Random changes of the features in each step; transcripts and labels are those of the recording.

    Attributes:
        stretch: the recording is stretched in time by a factor between 1 / stretch and stretch; 1 for none.
        noise: standard deviation of the noise that is added to each feature, in standard deviations of the feature in
            the recording; 0 for none.

    Raises:
        InputError: a value outside its range.
    """

    stretch: float = 1.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(
            "augmentation.",
            [
                ("stretch", self.stretch, "from 1 to 2", 1 <= self.stretch <= 2),
                ("noise", self.noise, "at least 0", self.noise >= 0),
            ],
        )

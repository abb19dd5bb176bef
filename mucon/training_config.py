"""Settings of the optimisation: epochs, learning rate, supervision, precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from mucon.errors import RangeRule, check_ranges

CHECKPOINT_SECONDS = 120.0
"""Seconds between two checkpoints, by default; changes no result."""
DROP_FRACTIONS = (70 / 150, 0.7, 60 / 150, 70 / 110)
"""Shares of the run after which the learning rate of a recipe drops, the default first. In an identity, a drop is the
first share that gives its epoch, or else an epoch."""


DeviceResident = Literal["auto", "on", "off"]
"""Whether the features of the training videos stay on a GPU: where they fit, or else an error, or never."""


class Schedule(Protocol):
    """The settings that the training loop reads, for example from `TrainingConfig`."""

    @property
    def epochs(self) -> int:
        """Passes over the videos."""

    @property
    def last_epoch(self) -> int:
        """The epoch, counted from 1, after which training ends: `epochs`, or an earlier one."""

    @property
    def threads(self) -> int:
        """CPU threads of the arithmetic."""

    @property
    def progress_every(self) -> int:
        """Epochs between two scores on training videos; the last epoch is always scored."""

    @property
    def device_resident(self) -> DeviceResident:
        """Whether the features stay on a GPU."""


def last_epoch(epochs: int, stop_after: int | None) -> int:
    """The epoch, counted from 1, after which a training of so many epochs ends."""
    return epochs if stop_after is None else min(epochs, stop_after)


class Ranged(Schedule, Protocol):
    """The settings of every method whose ranges `range_rules` states."""

    @property
    def stop_after(self) -> int | None:
        """Epochs after which training ends early."""

    @property
    def learning_rate(self) -> float:
        """Initial rate."""

    @property
    def weight_decay(self) -> float:
        """Weight decay of every parameter."""

    @property
    def clip_norm(self) -> float | None:
        """Largest gradient norm; None does not clip."""

    @property
    def progress_videos(self) -> int:
        """Largest number of training videos that are scored during training."""


def range_rules(config: Ranged) -> list[RangeRule]:
    """The ranges of the settings that the trainings of all methods share, for `mucon.errors.check_ranges`."""
    return [
        ("epochs", config.epochs, "at least 1", config.epochs >= 1),
        ("stop_after", config.stop_after, "at least 1", config.stop_after is None or config.stop_after >= 1),
        ("learning_rate", config.learning_rate, "above 0", config.learning_rate > 0),
        ("weight_decay", config.weight_decay, "at least 0", config.weight_decay >= 0),
        ("clip_norm", config.clip_norm, "above 0", config.clip_norm is None or config.clip_norm > 0),
        ("threads", config.threads, "at least 1", config.threads >= 1),
        ("progress_videos", config.progress_videos, "at least 0", config.progress_videos >= 0),
        ("progress_every", config.progress_every, "at least 1", config.progress_every >= 1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """One video per step; stochastic gradient descent without momentum by default.

    Attributes:
        epochs: passes over the training videos.
        stop_after: number of epochs after which training ends early, with the schedule of all `epochs`. It can go on
            later: the same run with another number, or none, resumes there and ends with the same bits.
        labelled: share of the training videos whose frame labels are used: 0 is weak, 1 full supervision, and values
            between are mixed. The first ceil(share · n) videos of an order that depends on the seed are labelled, so
            a larger share includes a smaller one.
        teacher_forcing: share of the run, from its start, in which the input of each step of the segment branch is the
            true previous symbol; afterwards it is the branch's own last symbol, for the true number of steps.
        optimiser: `sgd`, or `adam` (torch's, with weight decay added to the gradient).
        accumulate: videos whose gradients are averaged for one step of the optimiser.
        warm_start: run or checkpoint folder of a model of the same shape, whose weights are the initial ones.
        learning_rate: initial rate.
        lr_drop_fraction: share of the run after which the rate drops. Deviation: the paper specifies epochs (70 of 150,
            Hollywood 60 of 150); fractions scale with `epochs`.
        lr_drop_epoch: number of epochs after which the rate drops; takes precedence over the fraction.
        lr_drop_factor: factor of the rate at the drop.
        weight_decay: applied to every parameter.
        clip_norm: maximum norm of the gradient of each of the two parameter groups (backbone, encoder and its two
            linear layers; everything else).
        precision: precision of the backbone and the frame branch; `bfloat16` requires a device with instructions for
            it, otherwise float32 is used and recorded. Weights, segment branch, losses and inference are always
            float32.
        compile: pass masks and losses through torch.compile: with their gradients 140 small operations per step, about
            a sixth of a step's launches on a GPU. This takes a minute at the start and needs a C++ compiler (on a GPU,
            triton). Intended for GPUs; on a CPU they are 2 % of a step. The last bits of a resumed run may then differ
            from those of an uninterrupted one.
        threads: CPU threads; training sets them itself, because other numbers lead to other bits.
        progress_videos: maximum number of training videos with known lengths on which the network is scored during
            training.
        progress_every: epochs between two such scores; the last epoch is always scored.
        label_free_videos: maximum number of training videos of which scores are computed that need no label, in the
            same epochs, such as `label_free.agreement`; 0 computes none.
        device_resident: whether the features of the training videos stay on a GPU: `auto` keeps them there if they fit
            beside a margin, and otherwise reads the next video ahead; `on` refuses to train if they do not fit; `off`
            reads ahead. Changes no result, and has no effect on a CPU.

    Raises:
        InputError: a value outside its range.
    """

    epochs: int = 150
    stop_after: int | None = None
    labelled: float = 0.0
    teacher_forcing: float = 1.0
    optimiser: Literal["sgd", "adam"] = "sgd"
    accumulate: int = 1
    warm_start: str | None = None
    learning_rate: float = 0.01
    lr_drop_fraction: float = DROP_FRACTIONS[0]
    lr_drop_epoch: int | None = None
    lr_drop_factor: float = 0.1
    weight_decay: float = 0.005
    clip_norm: float = 100.0
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    threads: int = 1
    progress_videos: int = 20
    progress_every: int = 5
    label_free_videos: int = 0
    device_resident: DeviceResident = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            "training.",
            [
                *range_rules(self),
                ("lr_drop_fraction", self.lr_drop_fraction, "from 0 to 1", 0 <= self.lr_drop_fraction <= 1),
                (
                    "lr_drop_epoch",
                    self.lr_drop_epoch,
                    "at least 0",
                    self.lr_drop_epoch is None or self.lr_drop_epoch >= 0,
                ),
                ("lr_drop_factor", self.lr_drop_factor, "above 0", self.lr_drop_factor > 0),
                ("labelled", self.labelled, "from 0 to 1", 0 <= self.labelled <= 1),
                ("teacher_forcing", self.teacher_forcing, "from 0 to 1", 0 <= self.teacher_forcing <= 1),
                ("accumulate", self.accumulate, "at least 1", self.accumulate >= 1),
                ("label_free_videos", self.label_free_videos, "at least 0", self.label_free_videos >= 0),
            ],
        )

    @property
    def last_epoch(self) -> int:
        """The epoch, counted from 1, after which training ends.

        >>> TrainingConfig(epochs=30).last_epoch, TrainingConfig(epochs=30, stop_after=20).last_epoch
        (30, 20)
        """
        return last_epoch(self.epochs, self.stop_after)

    @property
    def forced_epochs(self) -> int:
        """Number of first epochs with teacher forcing."""
        return round(self.teacher_forcing * self.epochs)

    @property
    def drop_after(self) -> int:
        """Number of epochs with the initial rate."""
        if self.lr_drop_epoch is not None:
            return self.lr_drop_epoch
        return round(self.lr_drop_fraction * self.epochs)

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0.

        >>> config = TrainingConfig(epochs=30, lr_drop_epoch=20)
        >>> config.rate(19), round(config.rate(20), 6)
        (0.01, 0.001)
        """
        return self.learning_rate * (self.lr_drop_factor if epoch >= self.drop_after else 1.0)

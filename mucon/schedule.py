"""How long and how fast training learns."""

from __future__ import annotations

from dataclasses import dataclass

from mucon.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """One video a step, stochastic gradient descent without momentum.

    Attributes:
        epochs: passes over the training videos.
        learning_rate: of the first part of the run.
        lr_drop_fraction: share of the run after which the rate drops. Deviation: the paper gives epochs (70 of 150,
            Hollywood 60 of 150); as fractions they follow `epochs`.
        lr_drop_epoch: the same as an absolute number of epochs; wins over the fraction when given.
        lr_drop_factor: what the rate is multiplied by then.
        weight_decay: on every parameter.
        clip_norm: largest norm of the gradient of each of the two parameter groups (backbone, encoder and its two
            linear layers; everything else).
        threads: processor threads; training sets them itself, since other numbers give other bits.

    Raises:
        InputError: a value outside its range.
    """

    epochs: int = 150
    learning_rate: float = 0.01
    lr_drop_fraction: float = 70 / 150
    lr_drop_epoch: int | None = None
    lr_drop_factor: float = 0.1
    weight_decay: float = 0.005
    clip_norm: float = 100.0
    threads: int = 1

    def __post_init__(self) -> None:
        problems = [
            f"training.{name} is {rule}, not {getattr(self, name)}"
            for name, rule, good in (
                ("epochs", "at least 1", self.epochs >= 1),
                ("learning_rate", "above 0", self.learning_rate > 0),
                ("lr_drop_fraction", "a share from 0 to 1", 0 <= self.lr_drop_fraction <= 1),
                ("lr_drop_epoch", "at least 0", self.lr_drop_epoch is None or self.lr_drop_epoch >= 0),
                ("lr_drop_factor", "above 0", self.lr_drop_factor > 0),
                ("weight_decay", "at least 0", self.weight_decay >= 0),
                ("clip_norm", "above 0", self.clip_norm > 0),
                ("threads", "at least 1", self.threads >= 1),
            )
            if not good
        ]
        if problems:
            raise InputError(problems)

    @property
    def drop_after(self) -> int:
        """Epochs that run at the first rate."""
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

"""The configuration of ECTC, and its recipes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mucon.errors import check_ranges
from mucon.methods.ectc.network import BackboneNetworkConfig
from mucon.methods.weak import WeakConfig, WeakTrainingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EctcLossConfig:
    """Alignments that the loss sums over.

    Attributes:
        theta: least similarity of neighbouring frames, above 0; with 1 the features have no influence on the loss.
        rate: rate of the alignments. `latent`: one label per latent frame, the mean of its frames' features. `frame`:
            one label per frame; the frames of a latent frame share their log probabilities. A recording with fewer
            latent frames than segments is aligned frame by frame. Deviation: the published program aligns clusters of
            about 30 neighbouring frames.

    Raises:
        InputError: a value outside its range.
    """

    theta: float = 0.1
    rate: Literal["latent", "frame"] = "latent"

    def __post_init__(self) -> None:
        check_ranges("loss.", [("theta", self.theta, "above 0 and at most 1", 0 < self.theta <= 1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class EctcConfig(WeakConfig):
    """Everything that determines a run of ECTC besides its data; the released program contains the loss alone."""

    HAS_PUBLISHED: ClassVar[bool] = False

    network: BackboneNetworkConfig = field(default_factory=BackboneNetworkConfig)
    loss: EctcLossConfig = field(default_factory=EctcLossConfig)
    training: WeakTrainingConfig = field(default_factory=WeakTrainingConfig)

    def without_effect(self, labelled: bool | None) -> Iterator[str]:
        """What has no effect on training, and what has none without pooling."""
        yield from WeakConfig.without_effect(self, labelled)
        if not self.network.pool_after:
            yield from ("network.upsampling", "loss.rate")
        if self.network.kind == "single":
            yield "network.dilation"


def small() -> EctcConfig:
    """The context of MuCon's recipe `small`."""
    network = BackboneNetworkConfig(n_layers=4, pool_after=(1, 2, 3))
    return EctcConfig(network=network, training=WeakTrainingConfig(epochs=60))


def demo() -> EctcConfig:
    """A small network with little pooling and a short schedule for the demo data."""
    network = BackboneNetworkConfig(channels=64, n_layers=6, pool_after=(1, 2))
    return EctcConfig(network=network, training=WeakTrainingConfig(epochs=14))

"""Configurations of TCFPN and ED-TCN, and their recipes."""

from __future__ import annotations

from dataclasses import dataclass, field

from mucon.methods.encoder_decoder.ed_tcn import EdTcnNetworkConfig
from mucon.methods.encoder_decoder.tcfpn import TcfpnNetworkConfig
from mucon.methods.frames.config import FrameConfig, FrameLossConfig, FrameTrainingConfig


def _cross_entropy() -> FrameLossConfig:
    return FrameLossConfig(smoothing=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TcfpnConfig(FrameConfig):
    """TCFPN on all frames; cross-entropy of the mean of its probability vectors."""

    network: TcfpnNetworkConfig = field(default_factory=TcfpnNetworkConfig)
    loss: FrameLossConfig = field(default_factory=_cross_entropy)
    training: FrameTrainingConfig = field(default_factory=lambda: FrameTrainingConfig(epochs=100, learning_rate=0.0005))


@dataclass(frozen=True, slots=True, kw_only=True)
class EdTcnConfig(FrameConfig):
    """ED-TCN on all frames; cross-entropy."""

    network: EdTcnNetworkConfig = field(default_factory=EdTcnNetworkConfig)
    loss: FrameLossConfig = field(default_factory=_cross_entropy)
    training: FrameTrainingConfig = field(default_factory=lambda: FrameTrainingConfig(epochs=100, learning_rate=0.001))


def demo_of_tcfpn() -> TcfpnConfig:
    """A small network and a short schedule for the demo data."""
    return TcfpnConfig(
        network=TcfpnNetworkConfig(channels=(16, 24, 32), maps=24, kernel=9),
        training=FrameTrainingConfig(epochs=12, learning_rate=0.002),
    )


def demo_of_ed_tcn() -> EdTcnConfig:
    """A small network and a short schedule for the demo data."""
    return EdTcnConfig(
        network=EdTcnNetworkConfig(maps=32, growth=16, kernel=9),
        training=FrameTrainingConfig(epochs=12, learning_rate=0.002),
    )


def tcfpn_on_breakfast() -> TcfpnConfig:
    """The released program's rate of frames and learning rate."""
    return TcfpnConfig(
        network=TcfpnNetworkConfig(sample_rate=15), training=FrameTrainingConfig(epochs=100, learning_rate=0.0001)
    )


def ed_tcn_on_breakfast() -> EdTcnConfig:
    """Every 15th frame, as TCFPN."""
    return EdTcnConfig(network=EdTcnNetworkConfig(sample_rate=15))


RECIPES_OF_TCFPN = {"full": TcfpnConfig, "demo": demo_of_tcfpn, "breakfast": tcfpn_on_breakfast}
RECIPES_OF_ED_TCN = {"full": EdTcnConfig, "demo": demo_of_ed_tcn, "breakfast": ed_tcn_on_breakfast}

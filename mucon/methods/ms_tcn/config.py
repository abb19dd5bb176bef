"""Configurations of MS-TCN and MS-TCN++, and their recipes."""

from __future__ import annotations

from dataclasses import dataclass, field

from mucon.methods.frames.config import FrameConfig, FrameTrainingConfig
from mucon.methods.ms_tcn.network import MsTcnNetworkConfig, MsTcnPlusPlusNetworkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MsTcnConfig(FrameConfig):
    """The published recipe of MS-TCN."""

    network: MsTcnNetworkConfig = field(default_factory=MsTcnNetworkConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class MsTcnPlusPlusConfig(FrameConfig):
    """The published recipe of MS-TCN++."""

    network: MsTcnPlusPlusNetworkConfig = field(default_factory=MsTcnPlusPlusNetworkConfig)
    training: FrameTrainingConfig = field(default_factory=lambda: FrameTrainingConfig(epochs=100))


def demo() -> MsTcnConfig:
    """A small network and a short schedule for the demo data."""
    return MsTcnConfig(
        network=MsTcnNetworkConfig(stages=3, layers=7, maps=32, dropout=0.3),
        training=FrameTrainingConfig(epochs=12, learning_rate=0.002),
    )


def demo_plus_plus() -> MsTcnPlusPlusConfig:
    """A small network and a short schedule for the demo data."""
    return MsTcnPlusPlusConfig(
        network=MsTcnPlusPlusNetworkConfig(stages=3, prediction_layers=7, layers=7, maps=32, dropout=0.3),
        training=FrameTrainingConfig(epochs=12, learning_rate=0.002),
    )

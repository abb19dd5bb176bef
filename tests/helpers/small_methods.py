"""A small configuration of each method."""

from __future__ import annotations

from tests.helpers.factories import SMALL

SETTINGS: dict[str, dict[str, object]] = {
    "mucon": SMALL,
    "ms_tcn": {"network.stages": 2, "network.layers": 3, "network.maps": 8, "training.epochs": 2},
    "ms_tcn_pp": {
        "network.stages": 3,
        "network.prediction_layers": 3,
        "network.layers": 2,
        "network.maps": 8,
        "training.epochs": 2,
    },
    "tcfpn": {
        "network.channels": (4, 6, 4),
        "network.maps": 8,
        "network.kernel": 5,
        "network.groups": 2,
        "training.epochs": 2,
    },
    "ed_tcn": {"network.maps": 8, "network.growth": 4, "network.kernel": 5, "training.epochs": 2},
    "isba": {
        "network.channels": (4, 6, 4),
        "network.maps": 8,
        "network.kernel": 5,
        "network.groups": 2,
        "training.epochs": 2,
    },
    "frame_mlp": {"network.maps": 8, "training.epochs": 2},
    "hmm_rnn": {
        "network.hidden": 8,
        "network.window": 5,
        "network.max_states": 3,
        "training.frames_per_state": 4,
        "training.realign_every": 1,
        "training.minibatch": 32,
        "training.epochs": 2,
    },
    "ectc": {
        "network.channels": 16,
        "network.n_groups": 4,
        "network.n_layers": 4,
        "network.pool_after": (1, 2),
        "training.epochs": 2,
    },
    "nnv": {"network.hidden": 4, "network.window": 5, "training.epochs": 2},
    "cdfl": {"network.hidden": 4, "network.window": 5, "training.epochs": 2},
    "atba": {"network.maps": 8, "network.layers": 2, "training.epochs": 2, "training.accumulate": 1},
}
"""Settings with which a step of each method takes milliseconds."""

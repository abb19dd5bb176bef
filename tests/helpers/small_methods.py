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
    "d3tw": {"network.hidden": 4, "network.window": 5, "training.epochs": 2},
}
"""Settings with which a step of each method takes milliseconds."""
TOY: dict[str, dict[str, object]] = {
    "mucon": {
        "backbone.channels": 16,
        "backbone.n_groups": 4,
        "backbone.n_layers": 1,
        "backbone.pool_after": (),
        "segment_branch.hidden": 16,
        "training.epochs": 16,
        "training.optimiser": "adam",
        "training.learning_rate": 0.005,
        "training.weight_decay": 0.0,
    },
    "hmm_rnn": {
        "network.hidden": 16,
        "network.window": 3,
        "network.max_states": 4,
        "training.epochs": 8,
        "training.realign_every": 2,
        "training.learning_rate": 0.02,
    },
    "ectc": {
        "network.channels": 16,
        "network.n_groups": 4,
        "network.n_layers": 1,
        "network.pool_after": (),
        "training.epochs": 20,
        "training.learning_rate": 0.005,
    },
    "atba": {
        "network.maps": 16,
        "network.layers": 1,
        "training.epochs": 6,
        "training.stage1_epochs": 2,
        "training.accumulate": 1,
        "training.learning_rate": 0.005,
    },
    "nnv": {"network.hidden": 16, "network.window": 5, "training.epochs": 6, "training.learning_rate": 0.01},
    "cdfl": {"network.hidden": 16, "network.window": 3, "training.epochs": 10, "training.learning_rate": 0.02},
    "d3tw": {"network.hidden": 16, "network.window": 5, "training.epochs": 10, "training.learning_rate": 0.01},
    "isba": {
        "network.channels": (16,),
        "network.maps": 24,
        "network.kernel": 3,
        "training.epochs": 10,
        "training.learning_rate": 0.002,
    },
}
"""Settings of each method with which it learns the toy data in seconds."""

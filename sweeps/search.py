"""A search for better settings of MuCon than the recipe's: rate, weights of the losses, masks, dropout."""

from sweeps.api import Choice, LogUniform, Search, Uniform, main

EXPERIMENT = Search(
    name="search",
    title="Search for the best settings",
    space={
        "training.learning_rate": LogUniform(0.003, 0.1),
        "loss.smoothing": LogUniform(0.01, 1.0),
        "loss.length": LogUniform(0.01, 1.0),
        "loss.detach_length": Choice((False, True)),
        "mask.shape": Choice(("box", "bell", "trapezoid")),
        "mask.overlap": Uniform(0.0, 0.2, step=0.05),
        "mask.min_ramp_frames": Choice((0.0, 4.0, 8.0)),
        "backbone.dropout": Uniform(0.0, 0.5, step=0.05),
    },
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

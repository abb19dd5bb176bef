"""Table 1c of the paper: the length regularizer and the smoothing loss."""

from sweeps.api import Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_regularizers",
    title="Impact of the regularizers",
    label_titles=("L_s", "L_l"),
    variants=tuple(
        Variant(
            labels=("yes" if smoothing else "no", "yes" if length else "no"),
            settings={} if smoothing and length else {"loss.smoothing": smoothing, "loss.length": length},
        )
        for smoothing, length in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.1))
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

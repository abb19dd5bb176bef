"""Addition to Table 1c of the paper: a grid over the weights of the length (alpha) and smoothing (beta) losses."""

from sweeps.api import Experiment, Variant, main

WEIGHTS = (0.0, 0.01, 0.1, 1.0)

EXPERIMENT = Experiment(
    name="regularizer_grid",
    title="Weights of the regularizers",
    label_titles=("alpha (L_l)", "beta (L_s)"),
    variants=tuple(
        Variant(labels=(f"{alpha:g}", f"{beta:g}"), settings={"loss.length": alpha, "loss.smoothing": beta})
        for alpha in WEIGHTS
        for beta in WEIGHTS
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""Table "mixed" of the paper: share of the training videos with frame labels."""

from mucon import recipes
from sweeps.api import Experiment, Figure, Variant, main

EXPERIMENT = Experiment(
    name="mixed_supervision",
    title="Training with mixed supervision",
    label_titles=("Labelled",),
    variants=tuple(
        Variant(labels=(f"{percent} %",), settings={"training.labelled": percent / 100})
        for percent in (0, 1, 2, 5, 10, 20, 50, 100)
    ),
    base=recipes.breakfast_full,
    default_row="0 %",
    figure=Figure(kind="curve", x="Labelled", x_title="share of the training videos with frame labels"),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

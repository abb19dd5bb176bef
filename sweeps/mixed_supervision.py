"""Table "mixed" of the paper, with MS-TCN and MS-TCN++ on the labelled videos alone."""

from sweeps.api import Experiment, Figure, Recipe, Variant, main

SHARES = (1, 2, 5, 10, 20, 50, 100)
"""Percent of the training videos with frame labels; MuCon also uses the transcripts of the others."""

EXPERIMENT = Experiment(
    name="mixed_supervision",
    title="Training with mixed supervision",
    label_titles=("Labelled", "Method"),
    variants=(
        *(
            Variant(labels=(f"{percent} %", "MuCon"), settings={"training.labelled": percent / 100})
            for percent in (0, *SHARES)
        ),
        *(
            Variant(
                labels=(f"{percent} %", title),
                settings={"training.labelled": percent / 100},
                method=method,
                prediction="frames",
            )
            for method, title in (("ms_tcn", "MS-TCN"), ("ms_tcn_pp", "MS-TCN++"))
            for percent in SHARES
        ),
    ),
    base=Recipe("full"),
    default_row="0 %, MuCon",
    figure=Figure(kind="curve", x="Labelled", x_title="share of the training videos with frame labels"),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

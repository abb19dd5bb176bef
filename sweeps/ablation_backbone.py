"""Table 1a of the paper: effect of the temporal backbone on the predicted transcript."""

from sweeps.api import Column, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_backbone",
    title="Transcript prediction accuracy",
    label_titles=("Backbone", "L_mu"),
    variants=(
        Variant(
            labels=("single 1-d convolution", "no"),
            settings={"backbone.kind": "single", "loss.mutual_consistency": 0.0},
        ),
        *(
            Variant(labels=(label, "no"), settings={"backbone.dilation": dilation, "loss.mutual_consistency": 0.0})
            for label, dilation in (
                ("fixed dilation", "fixed"),
                ("linear dilation", "linear"),
                ("exponential dilation", "exponential"),
            )
        ),
        Variant(
            labels=("first stage of MS-TCN++", "no"),
            settings={"backbone.kind": "dual_dilated", "loss.mutual_consistency": 0.0},
        ),
        Variant(labels=("exponential dilation", "yes")),
    ),
    columns=(
        Column(metric="matching_score", prediction="segments"),
        Column(metric="edit", prediction="segments"),
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""Table "full supervision" of the paper, with MS-TCN and MS-TCN++: all training videos have frame labels."""

from sweeps.api import FULL_SUPERVISION_COLUMNS, Experiment, Recipe, Variant, main

EXPERIMENT = Experiment(
    name="full_supervision",
    title="Full supervision: effect of the mutual consistency loss, MS-TCN and MS-TCN++",
    label_titles=("Method",),
    variants=(
        Variant(labels=("MuCon without L_mu",), settings={"training.labelled": 1.0, "loss.mutual_consistency": 0.0}),
        Variant(labels=("MuCon",), settings={"training.labelled": 1.0, "loss.mutual_consistency": 1.0}),
        Variant(labels=("single frames, no context",), method="frame_mlp", prediction="frames"),
        Variant(labels=("MS-TCN",), method="ms_tcn", prediction="frames"),
        Variant(labels=("MS-TCN++",), method="ms_tcn_pp", prediction="frames"),
    ),
    columns=FULL_SUPERVISION_COLUMNS,
    base=Recipe("full"),
    default_row="MuCon",
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

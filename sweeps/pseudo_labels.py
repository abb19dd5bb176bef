"""MS-TCN on the predictions of MuCon for the training videos, beside MuCon and MS-TCN on the true labels.

The row "MuCon" has to be trained first: the same command with `--rows MuCon`.
"""

from sweeps.api import EDIT, F1, INFERENCE_SECONDS, MOF, TRAINING_SECONDS, Experiment, Variant, main

TAUGHT = {"training.labelled": 0.0, "training.labels_from": "row:MuCon"}

EXPERIMENT = Experiment(
    name="pseudo_labels",
    title="MS-TCN on the predictions of MuCon",
    label_titles=("Method",),
    variants=(
        Variant(labels=("MuCon",), prediction="full"),
        Variant(labels=("MS-TCN on MuCon's predictions",), method="ms_tcn", settings=TAUGHT, prediction="frames"),
        Variant(labels=("MS-TCN++ on MuCon's predictions",), method="ms_tcn_pp", settings=TAUGHT, prediction="frames"),
        Variant(labels=("MS-TCN",), method="ms_tcn", prediction="frames"),
        Variant(labels=("MS-TCN++",), method="ms_tcn_pp", prediction="frames"),
    ),
    columns=(MOF, *F1, EDIT, TRAINING_SECONDS, INFERENCE_SECONDS),
    default_row="MuCon",
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

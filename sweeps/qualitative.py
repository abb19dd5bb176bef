"""The paper's colour bars: the ground truth and several predictions of a recording below each other."""

from sweeps.api import Collection, Experiment, Figure, Recipe, Variant, main

SUPERVISION = Experiment(
    name="qualitative_supervision",
    title="Recordings segmented after weak, mixed and full supervision",
    label_titles=("Supervision",),
    variants=(
        Variant(labels=("weak",), settings={"training.labelled": 0.0}),
        Variant(labels=("mixed, 10 %",), settings={"training.labelled": 0.1}),
        Variant(labels=("full",), settings={"training.labelled": 1.0}),
    ),
    base=Recipe("full"),
    figure=Figure(kind="segmentations"),
)
PREDICTIONS = Experiment(
    name="qualitative_predictions",
    title="Recordings segmented by the three predictions",
    label_titles=("Prediction",),
    variants=(
        Variant(labels=("frames",), prediction="frames"),
        Variant(labels=("segments",), prediction="segments"),
        Variant(labels=("full",), prediction="full"),
    ),
    figure=Figure(kind="segmentations"),
)
EXPERIMENT = Collection(
    name="qualitative",
    title="Ground truth and runs as colour bars",
    experiments=(SUPERVISION, PREDICTIONS),
    seeds=1,
    demo_seeds=1,
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

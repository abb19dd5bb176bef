"""The labels that compete with the true one in the loss of CDFL: none, those of the released program, and others."""

from sweeps.api import EDIT, MOF, MOF_WITHOUT_BACKGROUND, Column, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_cdfl",
    title="CDFL: labels that compete with the true one of a segment",
    label_titles=("Rivals",),
    variants=(
        Variant(labels=("none",), method="cdfl"),
        Variant(labels=("as released",), method="cdfl", settings={"loss.discriminative": "released"}),
        Variant(labels=("better labels",), method="cdfl", settings={"loss.discriminative": "better"}),
        Variant(labels=("all labels",), method="cdfl", settings={"loss.discriminative": "all"}),
        Variant(labels=("none, alignment without a window",), method="cdfl", settings={"loss.window": 0}),
    ),
    columns=(
        MOF,
        MOF_WITHOUT_BACKGROUND,
        Column(metric="iod"),
        Column(metric="iou"),
        EDIT,
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

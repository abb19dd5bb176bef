"""ATBA with other pseudo labels: its boundaries, or the exact alignment with Poisson lengths about class means."""

from sweeps.api import F1, MOF, Column, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_atba",
    title="ATBA: alignment that gives the pseudo labels",
    label_titles=("Pseudo labels", "Prediction"),
    variants=tuple(
        Variant(labels=(label, prediction), settings={"alignment.kind": kind}, method="atba", prediction=prediction)
        for kind, label in (("atba", "boundaries"), ("exact", "exact alignment"))
        for prediction in ("frames", "full")
    ),
    columns=(MOF, Column(metric="iod"), Column(metric="iou"), *F1),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""Table 1b of the paper: shape of the masks of the mutual consistency loss, with and without overlap."""

from sweeps.api import Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_masks",
    title="Impact of mask generation",
    label_titles=("Shape", "Overlap"),
    variants=tuple(
        Variant(labels=(shape, label), settings={"mask.shape": shape, "mask.overlap": overlap})
        for overlap, label in ((0.0, "no"), (0.1, "10 %"))
        for shape in ("box", "bell", "trapezoid")
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""Table "full supervision" of the paper: effect of the mutual consistency loss if all videos have frame labels."""

from mucon import recipes
from sweeps.api import FULL_SUPERVISION_COLUMNS, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="full_supervision",
    title="Effect of the mutual consistency loss in the fully supervised setting",
    label_titles=("L_mu",),
    variants=tuple(
        Variant(labels=(label,), settings={"training.labelled": 1.0, "loss.mutual_consistency": weight})
        for label, weight in (("no", 0.0), ("yes", 1.0))
    ),
    columns=FULL_SUPERVISION_COLUMNS,
    base=recipes.breakfast_full,
    default_row="yes",
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

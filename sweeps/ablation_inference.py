"""Table 1d of the paper: the three predictions. They share their trainings with other tables."""

from sweeps.api import F1, INFERENCE_SECONDS, MATCHING_SCORE, MOF, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_inference",
    title="Different variants for inference",
    label_titles=("Inference",),
    variants=(
        Variant(labels=("frames (MuCon-Y)",), prediction="frames"),
        Variant(labels=("segments (MuCon-S)",), prediction="segments"),
        Variant(labels=("full (MuCon-full)",), prediction="full"),
    ),
    columns=(MOF, MATCHING_SCORE, *F1, INFERENCE_SECONDS),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

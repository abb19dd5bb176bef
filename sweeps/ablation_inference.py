"""Table 1d of the paper: the three predictions, and `full` with equal lengths; trained like other tables' rows."""

from sweeps.api import F1, INFERENCE_SECONDS, MATCHING_SCORE, MOF, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_inference",
    title="Different variants for inference",
    label_titles=("Inference",),
    variants=(
        Variant(labels=("frames (MuCon-Y)",), prediction="frames"),
        Variant(labels=("segments (MuCon-S)",), prediction="segments"),
        Variant(labels=("full (MuCon-full)",), prediction="full"),
        Variant(
            labels=("full, prior about equal lengths",), settings={"decoding.length_prior": "equal"}, prediction="full"
        ),
    ),
    columns=(MOF, MATCHING_SCORE, *F1, INFERENCE_SECONDS),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

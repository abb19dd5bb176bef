"""Accuracy, predicted transcripts, training and inference time over five seeds and all splits."""

from sweeps.api import INFERENCE_SECONDS, MATCHING_SCORE, MOF, TRAINING_SECONDS, Experiment, Variant, main

EXPERIMENT = Experiment(
    name="seeds_and_splits",
    title="Seeds and splits",
    label_titles=("Approach",),
    variants=(
        Variant(labels=("frames",), prediction="frames"),
        Variant(labels=("segments",), prediction="segments"),
        Variant(labels=("full",), prediction="full"),
    ),
    columns=(MOF, MATCHING_SCORE, TRAINING_SECONDS, INFERENCE_SECONDS),
    splits=("all",),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

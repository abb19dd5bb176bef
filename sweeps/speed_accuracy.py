"""The paper's figure of accuracy against inference time, for every kind of prediction."""

from sweeps.api import INFERENCE_SECONDS, MATCHING_SCORE, MOF, TRAINING_SECONDS, Experiment, Figure, Variant, main

EXPERIMENT = Experiment(
    name="speed_accuracy",
    title="Inference time against accuracy",
    label_titles=("Prediction",),
    variants=(
        Variant(labels=("frames",), prediction="frames"),
        Variant(labels=("segments",), prediction="segments"),
        Variant(labels=("full",), prediction="full"),
        Variant(labels=("full, beam 10",), settings={"decoding.beam": 10}, prediction="full"),
        Variant(
            labels=("full, all training transcripts",),
            settings={"decoding.transcripts": "training"},
            prediction="full",
        ),
    ),
    columns=(MOF, MATCHING_SCORE, TRAINING_SECONDS, INFERENCE_SECONDS),
    figure=Figure(kind="scatter", x="s/video", x_title="inference time of a video, seconds"),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

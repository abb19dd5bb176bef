"""Accuracy against inference time if several transcripts of the segment branch are aligned."""

from sweeps.api import F1, INFERENCE_SECONDS, MATCHING_SCORE, MOF, Experiment, Figure, Variant, main

EXPERIMENT = Experiment(
    name="beam_search",
    title="Transcripts aligned at inference: accuracy against time",
    label_titles=("Transcripts",),
    variants=(
        Variant(labels=("greedy",)),
        *(Variant(labels=(f"beam {beam}",), settings={"decoding.beam": beam}) for beam in (2, 5, 10, 20, 50)),
        Variant(labels=("all training transcripts",), settings={"decoding.transcripts": "training"}),
    ),
    columns=(MOF, MATCHING_SCORE, F1[0], INFERENCE_SECONDS),
    figure=Figure(kind="scatter", x="s/video", x_title="inference time of a video, seconds"),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

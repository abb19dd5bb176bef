"""Segmentation and alignment with every method of the package, beside the numbers that papers report."""

from sweeps._reported import ALIGNMENT as REPORTED_ALIGNMENT
from sweeps._reported import SEGMENTATION as REPORTED_SEGMENTATION
from sweeps.api import (
    EDIT,
    F1,
    INFERENCE_SECONDS,
    MOF,
    MOF_WITHOUT_BACKGROUND,
    TRAINING_SECONDS,
    Collection,
    Column,
    Experiment,
    Variant,
    main,
)

SEGMENTATION = Experiment(
    name="comparison_segmentation",
    title="Comparison: action segmentation",
    label_titles=("Method",),
    variants=(
        Variant(labels=("MuCon frames",), prediction="frames"),
        Variant(labels=("MuCon segments",), prediction="segments"),
        Variant(labels=("MuCon full",), prediction="full"),
        Variant(labels=("MuCon full, beam 10",), settings={"decoding.beam": 10}, prediction="full"),
        Variant(
            labels=("MuCon frames, all training transcripts",),
            settings={"decoding.transcripts": "training"},
            prediction="full",
        ),
        Variant(labels=("ATBA",), method="atba", prediction="frames"),
        Variant(labels=("CDFL",), method="cdfl", prediction="full"),
        Variant(labels=("NNV",), method="nnv", prediction="full"),
        Variant(labels=("ISBA",), method="isba", prediction="frames"),
        Variant(labels=("HMM/RNN",), method="hmm_rnn", prediction="full"),
        Variant(labels=("ECTC",), method="ectc", prediction="frames"),
        Variant(labels=("D3TW-style",), method="d3tw", prediction="full"),
        Variant(labels=("MS-TCN",), method="ms_tcn", prediction="frames"),
        Variant(labels=("MS-TCN++",), method="ms_tcn_pp", prediction="frames"),
        Variant(labels=("TCFPN",), method="tcfpn", prediction="frames"),
        Variant(labels=("ED-TCN",), method="ed_tcn", prediction="frames"),
    ),
    columns=(
        MOF,
        MOF_WITHOUT_BACKGROUND,
        Column(metric="iod"),
        Column(metric="iou"),
        *F1,
        EDIT,
        TRAINING_SECONDS,
        INFERENCE_SECONDS,
    ),
    quoted=REPORTED_SEGMENTATION,
)
ALIGNMENT = Experiment(
    name="comparison_alignment",
    title="Comparison: action alignment, transcripts of the test videos given",
    label_titles=("Method",),
    variants=(
        Variant(labels=("MuCon frames",), prediction="frames", task="alignment"),
        Variant(labels=("MuCon segments",), prediction="segments", task="alignment"),
        Variant(labels=("MuCon full",), prediction="full", task="alignment"),
        Variant(labels=("ATBA",), method="atba", prediction="frames", task="alignment"),
        Variant(labels=("CDFL",), method="cdfl", prediction="full", task="alignment"),
        Variant(labels=("NNV",), method="nnv", prediction="full", task="alignment"),
        Variant(labels=("ISBA",), method="isba", prediction="frames", task="alignment"),
        Variant(labels=("HMM/RNN",), method="hmm_rnn", prediction="full", task="alignment"),
        Variant(labels=("ECTC",), method="ectc", prediction="frames", task="alignment"),
        Variant(labels=("D3TW-style",), method="d3tw", prediction="full", task="alignment"),
    ),
    columns=(
        MOF,
        MOF_WITHOUT_BACKGROUND,
        Column(title="IoD", metric="iod_by_index"),
        Column(title="IoU", metric="iou_by_index"),
        Column(metric="boundary_error_by_index_frames", title="boundary, frames"),
        INFERENCE_SECONDS,
    ),
    quoted=REPORTED_ALIGNMENT,
)
EXPERIMENT = Collection(
    name="comparison",
    title="Every method, for segmentation and alignment",
    experiments=(SEGMENTATION, ALIGNMENT),
    splits=("all",),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""Table 1d of the paper: the three predictions. Trains nothing where the trials are known."""

from sweeps.service.cli import main
from sweeps.service.experiment import Experiment
from sweeps.service.table_shape import Column, Variant

EXPERIMENT = Experiment(
    name="ablation_inference",
    title="Different variants for inference",
    label_titles=("Inference",),
    variants=(
        Variant(labels=("frames (MuCon-Y)",), prediction="frames"),
        Variant(labels=("segments (MuCon-S)",), prediction="segments"),
        Variant(labels=("full (MuCon-full)",), prediction="full"),
    ),
    columns=(
        Column(title="MoF", metric="mof"),
        Column(title="Mat Score", metric="matching_score", unit="fraction"),
        Column(title="F1@10", metric="f1_at_10"),
        Column(title="F1@25", metric="f1_at_25"),
        Column(title="F1@50", metric="f1_at_50"),
        Column(title="s/video", metric="inference_seconds", unit="seconds"),
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

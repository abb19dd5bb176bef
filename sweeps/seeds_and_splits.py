"""Five seeds on every split: accuracy, transcript, training and inference time."""

from sweeps.service.cli import main
from sweeps.service.experiment import Experiment
from sweeps.service.table_shape import Column, Variant

EXPERIMENT = Experiment(
    name="seeds_and_splits",
    title="Seeds and splits",
    label_titles=("Approach",),
    variants=(
        Variant(labels=("frames",), prediction="frames"),
        Variant(labels=("segments",), prediction="segments"),
        Variant(labels=("full",), prediction="full"),
    ),
    columns=(
        Column(title="MoF", metric="mof"),
        Column(title="Mat Score", metric="matching_score", unit="fraction"),
        Column(title="training, s", metric="training_seconds", unit="seconds"),
        Column(title="s/video", metric="inference_seconds", unit="seconds"),
    ),
    splits=("all",),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

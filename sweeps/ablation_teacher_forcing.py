"""Table 1e of the paper: share of the epochs with teacher forcing in the segment branch."""

from sweeps.api import Experiment, Variant, main

EXPERIMENT = Experiment(
    name="ablation_teacher_forcing",
    title="Impact of teacher forcing",
    label_titles=("Teacher forcing",),
    variants=(
        Variant(labels=("none",), settings={"training.teacher_forcing": 0.0}),
        Variant(labels=("first 47 % of the epochs",), settings={"training.teacher_forcing": 70 / 150}),
        Variant(labels=("all epochs",)),
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

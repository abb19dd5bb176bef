"""All tables as one sweep; a trial that several tables contain is trained once."""

from sweeps import (
    ablation_atba,
    ablation_backbone,
    ablation_inference,
    ablation_masks,
    ablation_regularizers,
    ablation_teacher_forcing,
    beam_search,
    comparison,
    full_supervision,
    mixed_supervision,
    qualitative,
    seeds_and_splits,
    speed_accuracy,
)
from sweeps.api import Collection, main

EXPERIMENT = Collection(
    name="reproduce",
    title="All tables",
    experiments=(
        ablation_backbone.EXPERIMENT,
        ablation_masks.EXPERIMENT,
        ablation_regularizers.EXPERIMENT,
        ablation_inference.EXPERIMENT,
        ablation_teacher_forcing.EXPERIMENT,
        ablation_atba.EXPERIMENT,
        mixed_supervision.EXPERIMENT,
        full_supervision.EXPERIMENT,
        beam_search.EXPERIMENT,
        *comparison.EXPERIMENT.experiments,
        seeds_and_splits.EXPERIMENT,
        speed_accuracy.EXPERIMENT,
        *qualitative.EXPERIMENT.experiments,
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""MuCon beyond the paper: options in training and in decoding, each on top of a short context.

Rows that differ in their decoding alone share one training. The rows of the background need recordings with one; its
share of 20 % stands for what a user knows.
"""

from sweeps.api import EDIT, F1, MOF, MOF_OF_FRAMES, MOF_WITHOUT_BACKGROUND, Column, Experiment, Recipe, Variant, main

LONG = {"backbone.n_layers": 11, "backbone.pool_after": (1, 2, 4, 8)}
ONE_LABELLED = {"training.labelled": 0.0005}
"""One recording, of at most 2,000."""
TENTH = {"training.labelled": 0.1}
OWN_LABELS = {"self_training.start": 0.45}
EQUAL = {"decoding.length_prior": "equal"}
NO_PRIOR = {"decoding.length_prior": "none"}
FITTED = {"decoding.length_prior": "fitted"}
STATED = {"decoding.background_rule": "share", "decoding.background_share": 0.2}
BY_LABELS = {"decoding.background_rule": "labelled"}
SOFT = {"soft_alignment.weight": 1.0}
PROTOTYPES = {"prototypes.weight": 0.1}
VIDEO_LEVEL = {"video_level.weight": 1.0}
AUGMENTED = {"augmentation.stretch": 1.25, "augmentation.noise": 0.1}

EXPERIMENT = Experiment(
    name="beyond",
    title="MuCon beyond the paper",
    label_titles=("Training", "Decoding"),
    variants=(
        Variant(labels=("plain", "paper"), settings=LONG),
        Variant(labels=("short context", "paper")),
        Variant(labels=("short context", "equal lengths"), settings=EQUAL),
        Variant(labels=("short context", "no length prior"), settings=NO_PRIOR),
        Variant(labels=("short context", "fitted lengths"), settings=FITTED),
        Variant(labels=("short context", "background 20 % stated"), settings=STATED),
        Variant(labels=("one labelled recording", "paper"), settings=ONE_LABELLED),
        Variant(labels=("one labelled recording", "background by it"), settings={**ONE_LABELLED, **BY_LABELS}),
        Variant(labels=("self-training", "paper"), settings=OWN_LABELS),
        Variant(labels=("self-training", "no length prior"), settings={**OWN_LABELS, **NO_PRIOR}),
        Variant(labels=("self-training", "fitted lengths"), settings={**OWN_LABELS, **FITTED}),
        Variant(labels=("self-training, soft", "fitted lengths"), settings={**OWN_LABELS, **SOFT, **FITTED}),
        Variant(
            labels=("self-training, prototypes", "fitted lengths"), settings={**OWN_LABELS, **PROTOTYPES, **FITTED}
        ),
        Variant(
            labels=("self-training, video level", "fitted lengths"), settings={**OWN_LABELS, **VIDEO_LEVEL, **FITTED}
        ),
        Variant(
            labels=("self-training, augmentation", "fitted lengths"), settings={**OWN_LABELS, **AUGMENTED, **FITTED}
        ),
        Variant(labels=("self-training, long context", "fitted lengths"), settings={**OWN_LABELS, **LONG, **FITTED}),
        Variant(labels=("10 % labels", "paper"), settings=TENTH),
        Variant(labels=("10 % labels, self-training", "fitted lengths"), settings={**TENTH, **OWN_LABELS, **FITTED}),
    ),
    columns=(
        MOF,
        MOF_OF_FRAMES,
        MOF_WITHOUT_BACKGROUND,
        *F1,
        EDIT,
        Column(metric="length_correlation", prediction="segments", title="length corr"),
    ),
    base=Recipe("small"),
    default_row="plain, paper",
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

"""MuCon beyond the paper: options in training and in decoding, each on top of a short context.

Rows that differ in their decoding alone share one training. The rows of the background need recordings with one; its
share of 20 % stands for what a user knows.
"""

from sweeps.api import EDIT, F1, MOF, MOF_OF_FRAMES, MOF_WITHOUT_BACKGROUND, Column, Experiment, Recipe, Variant, main

LONG = {"backbone.n_layers": 11, "backbone.pool_after": (1, 2, 4, 8)}
ONE_LABELLED = {"training.labelled": 0.0005}
"""One recording, of at most 2,000."""
TENTH = {"training.labelled": 0.1}
OWN_LABELS = {"self_training.start": 0.45, "self_training.divided": 4}
EQUAL = {"decoding.length_prior": "equal"}
NO_PRIOR = {"decoding.length_prior": "none"}
FITTED = {"decoding.length_prior": "fitted"}
STATED = {"decoding.background_rule": "share", "decoding.background_share": 0.2}
BY_SCORE = {"decoding.background_rule": "score"}
BIGRAM = {"decoding.transcripts": "bigram"}
BY_LABELS = {"decoding.background_rule": "labelled"}
UNDIVIDED = {"self_training.divided": 0}
OWN_LENGTHS = {"self_training.supervised_length": 1.0}
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
        Variant(labels=("short context", "background by a score"), settings=BY_SCORE),
        Variant(labels=("short context", "bigram of transcripts"), settings=BIGRAM),
        Variant(labels=("one labelled recording", "paper"), settings=ONE_LABELLED),
        Variant(labels=("one labelled recording", "background by it"), settings={**ONE_LABELLED, **BY_LABELS}),
        Variant(labels=("self-training", "paper"), settings=OWN_LABELS),
        Variant(labels=("self-training", "equal lengths"), settings={**OWN_LABELS, **EQUAL}),
        Variant(labels=("self-training", "no length prior"), settings={**OWN_LABELS, **NO_PRIOR}),
        Variant(labels=("self-training", "fitted lengths"), settings={**OWN_LABELS, **FITTED}),
        Variant(labels=("self-training, undivided", "paper"), settings={**OWN_LABELS, **UNDIVIDED}),
        Variant(labels=("self-training, own lengths", "paper"), settings={**OWN_LABELS, **OWN_LENGTHS}),
        Variant(
            labels=("self-training, own lengths", "equal lengths"), settings={**OWN_LABELS, **OWN_LENGTHS, **EQUAL}
        ),
        Variant(labels=("self-training, soft", "paper"), settings={**OWN_LABELS, **SOFT}),
        Variant(labels=("self-training, prototypes", "paper"), settings={**OWN_LABELS, **PROTOTYPES}),
        Variant(labels=("self-training, video level", "paper"), settings={**OWN_LABELS, **VIDEO_LEVEL}),
        Variant(labels=("self-training, augmentation", "paper"), settings={**OWN_LABELS, **AUGMENTED}),
        Variant(labels=("self-training, long context", "paper"), settings={**OWN_LABELS, **LONG}),
        Variant(labels=("10 % labels", "paper"), settings=TENTH),
        Variant(labels=("10 % labels, self-training", "paper"), settings={**TENTH, **OWN_LABELS}),
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

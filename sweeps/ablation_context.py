"""Context of the backbone: layers and pooling, what lengths learn in it, and lengths that are pinned to equal parts.

A row has learned an alignment only if its L_mu is lower than that of its pinned row.
"""

from sweeps.api import MOF, MOF_OF_FRAMES, Column, Experiment, Recipe, Variant, main

LONG = {"backbone.n_layers": 11, "backbone.pool_after": (1, 2, 4, 8)}
SHORT = {"backbone.n_layers": 4, "backbone.pool_after": (1, 2, 3)}
PINNED = {"loss.length": 1.0, "loss.length_width": 0.1}

EXPERIMENT = Experiment(
    name="ablation_context",
    title="Context of the backbone",
    label_titles=("Layers", "Pooled by", "Lengths"),
    variants=(
        Variant(labels=("11", "16", "learned"), settings=LONG),
        Variant(labels=("11", "16", "pinned equal"), settings={**LONG, **PINNED}),
        Variant(labels=("11", "8", "learned"), settings={**LONG, "backbone.pool_after": (1, 2, 4)}),
        Variant(labels=("6", "16", "learned"), settings={"backbone.n_layers": 6, "backbone.pool_after": (1, 2, 3, 4)}),
        Variant(labels=("6", "8", "learned"), settings={"backbone.n_layers": 6, "backbone.pool_after": (1, 2, 4)}),
        Variant(labels=("4", "8", "learned"), settings=SHORT),
        Variant(labels=("4", "8", "pinned equal"), settings={**SHORT, **PINNED}),
        Variant(labels=("4", "8", "weighted by length"), settings={**SHORT, "loss.over_segments": "length"}),
        Variant(
            labels=("4", "8", "no gradient of l', wide ramps"),
            settings={**SHORT, "loss.detach_length": True, "mask.min_ramp_frames": 8.0},
        ),
        Variant(labels=("4", "4", "learned"), settings={**SHORT, "backbone.pool_after": (1, 2)}),
        Variant(labels=("3", "8", "learned"), settings={"backbone.n_layers": 3, "backbone.pool_after": (0, 1, 2)}),
    ),
    columns=(
        MOF,
        MOF_OF_FRAMES,
        Column(metric="mutual_consistency"),
        Column(metric="length_correlation", prediction="segments", title="length corr"),
        Column(metric="log_length_error", prediction="segments", title="log length error"),
    ),
    base=Recipe("small"),
    default_row="4, 8, learned",
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

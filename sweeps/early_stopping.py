"""Accuracy after each epoch of a training, and whether a score that needs no label knows the best one.

`mucon-sweeps early-stop early_stopping` compares the scores. There is a table for each recipe and number of epochs:
choose some with `--rows`, such as `--rows plain_15 best_15`, without `--epochs`. The rows of a table continue each
other, so each training is made once.
"""

from sweeps.api import MOF, Collection, Experiment, Figure, Recipe, Variant, main

EPOCHS = {
    15: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15),
    30: (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30),
    60: (2, 4, 6, 8, 10, 12, 16, 20, 25, 30, 40, 50, 60),
}
"""Epochs of a training -> the epochs after which it is scored."""
SCORED = {"training.label_free_videos": 1000, "training.progress_videos": 0}

EXPERIMENT = Collection(
    name="early_stopping",
    title="Accuracy over the epochs of a training",
    experiments=tuple(
        Experiment(
            name=f"{arm}_{epochs}",
            title=f"Accuracy over {epochs} epochs, {arm}",
            label_titles=("Epochs", "Prediction"),
            variants=tuple(
                variant
                for stop in stops
                for settings in ({"training.epochs": epochs, "training.stop_after": stop, **SCORED},)
                for variant in (
                    Variant(labels=(str(stop), "frames"), settings=settings, prediction="frames"),
                    Variant(labels=(str(stop), "segments"), settings=settings, prediction="segments"),
                    Variant(labels=(str(stop), "full"), settings=settings, prediction="full"),
                )
            ),
            columns=(MOF,),
            base=base,
            default_row=f"{epochs}, full",
            figure=Figure(kind="curve", x="Epochs", x_title="epochs"),
        )
        for epochs, stops in EPOCHS.items()
        for arm, base in (("plain", Recipe("weak")), ("best", Recipe("best")))
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(EXPERIMENT))

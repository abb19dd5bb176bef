"""Training that starts from the weights of a trained model."""

from __future__ import annotations

from pathlib import Path

from mucon import checkpoint as checkpoints
from mucon.errors import InputError
from mucon.model import MuConNetwork
from mucon.videos import check_same_data
from mucon.vocabulary import Vocabulary


def warm_start(model: MuConNetwork, vocabulary: Vocabulary, folder: Path) -> None:
    """Gives a model the weights of a trained one.

    Args:
        model: changed in place.
        vocabulary: of the data that it will be trained on.
        folder: of a run or of a checkpoint.

    Raises:
        InputError: no checkpoint there; else one for other data, whose differences are all told; else one of another
            shape, whose differences are all told.
    """
    place = checkpoints.of_run(folder)
    trained = checkpoints.load(place)
    check_same_data(trained.vocabulary, trained.model.size.dim, vocabulary, model.size.dim)
    theirs, ours = trained.model.state_dict(), model.state_dict()
    problems = [
        f"training.warm_start takes a model of the same shape, {place} has {name} "
        f"{list(theirs[name].shape) if name in theirs else 'nowhere'} and the configuration asks for "
        f"{list(ours[name].shape) if name in ours else 'none'}: use the configuration that it was trained with"
        for name in sorted({*theirs, *ours})
        if name not in theirs or name not in ours or theirs[name].shape != ours[name].shape
    ]
    if problems:
        raise InputError(problems)
    model.load_state_dict(theirs)

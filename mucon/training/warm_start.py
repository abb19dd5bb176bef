"""Training that starts from the weights of a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mucon import checkpoint as checkpoints
from mucon.errors import InputError, Problem
from mucon.model import MuConNetwork
from mucon.videos import check_same_data
from mucon.vocabulary import Vocabulary


def warm_start(model: MuConNetwork, vocabulary: Vocabulary, folder: Path) -> None:
    """Copies the weights of a trained model.

    Args:
        model: changed in place.
        vocabulary: actions of the data that it is trained on next.
        folder: of a run, a trial or a checkpoint.

    Raises:
        InputError: no checkpoint there, a checkpoint for other data, or one of another shape.
    """
    place = checkpoints.of_run(folder)
    trained = checkpoints.load(place)
    check_same_data(trained.vocabulary, trained.model.size.dim, vocabulary, model.size.dim)
    theirs, ours = trained.model.state_dict(), model.state_dict()
    problems = [
        Problem(
            rule="shape",
            place=f"training.warm_start: {place}: {name}",
            value=_shape(theirs, name),
            message=f"expected {_text(_shape(ours, name))}, got {_text(_shape(theirs, name))}",
            hint="use the configuration of that model",
        )
        for name in sorted({*theirs, *ours})
        if _shape(theirs, name) != _shape(ours, name)
    ]
    if problems:
        raise InputError(problems)
    model.load_state_dict(theirs)


def _shape(tensors: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(tensors[name].shape) if name in tensors else None


def _text(shape: tuple[int, ...] | None) -> str:
    return "no such tensor" if shape is None else str(list(shape))

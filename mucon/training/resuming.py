"""The checkpoint that a training resumes from, compared with what is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mucon import checkpoint_files as files
from mucon.checkpoint_files import Saved
from mucon.configuration import Config
from mucon.errors import DataWarning, InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.method import training_of
from mucon.vocabulary import Vocabulary


def resume(
    path: Path,
    *,
    method: str,
    config: Config,
    size: Mapping[str, Any],
    vocabulary: Vocabulary,
    data: TrainedOn,
    labelled: bool,
) -> Saved | None:
    """The checkpoint that training resumes from, or None if there is none.

    A run that ended early (`training.stop_after`) goes on if a later end is asked for.

    Args:
        path: checkpoint folder of the run.
        method: name of the method that is trained.
        config: its configuration.
        size: the parts of the network's size that the data determine.
        vocabulary: actions of the data.
        data: the data.
        labelled: whether any video is labelled.

    Raises:
        InputError: the checkpoint is damaged, or belongs to another run or to other data.

    Warns:
        DataWarning: the checkpoint is of an earlier version and does not record its data.
    """
    if not files.exists(path):
        return None
    saved = files.read(path)
    different = ["method"] if saved.method != method else _differences(path, saved, config, labelled)
    other_data = None if saved.trained_on is None else saved.trained_on.conflict(path.parent, data)
    fits = saved.method != method or (dict(size), vocabulary) == (dict(saved.size), saved.vocabulary)
    if not fits and other_data is None:
        different.append("data")
    problems = [] if other_data is None else [other_data]
    if different:
        problems.append(
            Problem(
                rule="conflict",
                place=str(path),
                value=tuple(different),
                message=f"contains a checkpoint of another run (different: {', '.join(different)})",
                hint="choose another folder, or use the configuration and data of that run",
            )
        )
    if problems:
        raise InputError(problems)
    if saved.trained_on is None:
        _warn_of_unknown_data(path.parent)
    goes_on = saved.progress.finished and saved.progress.epoch < training_of(config).last_epoch
    return replace(saved, progress=replace(saved.progress, finished=False)) if goes_on else saved


def _warn_of_unknown_data(run: Path) -> None:
    message = "this run of an earlier version does not record its training data"
    hint = "make sure that they are the same"
    warnings.warn(DataWarning(Problem(rule="missing", place=str(run), message=message, hint=hint)), stacklevel=5)


def _differences(path: Path, saved: Saved, config: Config, labelled: bool) -> list[str]:
    with files.parsing(path / files.CONFIG):
        before = type(config).from_dict(saved.config)
    requested, trained = (one.canonical(labelled=labelled).trained_differences() for one in (config, before))
    settings = sorted(key for key in {*requested, *trained} if requested.get(key) != trained.get(key))
    if saved.trained_on is None:  # earlier versions recorded the precision that was requested, not the one in use
        settings = [path for path in settings if path != "training.precision"]
    begun = saved.progress.epoch + (saved.progress.step_in_epoch > 0)
    if begun <= training_of(config).last_epoch:  # it has not gone further than what is asked for
        settings = [path for path in settings if path != "training.stop_after"]
    return [*settings, *(["seed"] if config.seed != before.seed else [])]

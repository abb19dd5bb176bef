"""Which checkpoints stay whole.

An unfinished trial keeps its last checkpoint. A finished one keeps its final checkpoint: weights, configuration,
vocabulary and facts, with which it is evaluated, predicts and is exported. `--keep K` removes the state of the
optimiser, which nothing needs any more, from all but the K best trials of each table. A trial from which others start,
or of which a model is registered, stays whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from mucon.checkpoint_files import RESUMING, STATE
from mucon.errors import InputError
from storage.fencing import SupersededError
from sweeps.service.plan.plan import Part, read_plan
from sweeps.service.plan.sweep_folder import read_sweep
from sweeps.service.text import megabytes
from sweeps.service.trials import lease
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import FORMAT_VERSION, TrialFolder
from sweeps.service.trials.journal import milliseconds
from sweeps.service.trials.json_files import read_json, write_json
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.upkeep.uses import Uses, read_uses


def best(part: Part, results: Mapping[str, CellResult], n: int) -> list[str]:
    """The trials with the n best values in the first column of a table that has values, the best one first."""
    for column in part.experiment.columns:
        sign = 1 if column.higher_is_better else -1
        values: dict[str, float] = {}
        for cell in part.cells:
            value = results[cell.key].value(*column.of(cell.variant))
            if value is not None:
                values[cell.identity] = max(sign * value, values.get(cell.identity, sign * value))
        if values:
            return sorted(values, key=lambda identity: -values[identity])[:n]
    return []


def kept(results: ResultsFolder, name: str) -> int | None:
    """The number of trials that keep their whole checkpoints by the record of a sweep; None for all."""
    try:
        record = read_sweep(results.sweep(name))
    except InputError:
        return None
    return None if record is None else record.sweep.keep


def weights_only(
    trials: Mapping[str, Iterable[str]], kept: Mapping[str, Sequence[str] | None], starts: Iterable[str]
) -> set[str]:
    """The trials that keep their weights only.

    Args:
        trials: name of a sweep -> its trials.
        kept: name of a sweep -> its trials whose checkpoints stay whole; None for all of them.
        starts: trials from whose weights other trials or sweeps start.

    >>> sorted(weights_only({"a": "xyz", "b": "z"}, {"a": "x", "b": None}, []))
    ['y']
    """
    whole = set(starts)
    for name, identities in trials.items():
        best_ones = kept[name]
        whole |= set(identities if best_ones is None else best_ones)
    return {identity for identities in trials.values() for identity in identities} - whole


def beyond(
    results: ResultsFolder, uses: Uses | None = None, registered: Callable[[], Collection[str]] = tuple
) -> list[TrialFolder]:
    """The trained trials whose checkpoints have a state of the optimiser that no sweep keeps.

    None while a sweep's plan or record cannot be read, because it may keep them.

    Args:
        results: the results folder.
        uses: who needs the trials; read if None.
        registered: returns the identities of trials with registered models; called only if it matters.
    """
    uses = uses or read_uses(results)
    whole: dict[str, list[str] | None] = {}
    for name in uses.sweeps:
        try:
            record = read_sweep(results.sweep(name))
            keep = None if record is None else record.sweep.keep
            plan = None if keep is None else read_plan(results, name)
        except InputError:
            return []
        if plan is None or keep is None:
            whole[name] = None
        else:
            values = plan.read_results()
            whole[name] = [identity for part in plan.parts for identity in best(part, values, keep)]
    chosen = weights_only(uses.sweeps, whole, {*uses.starting_sweeps, *uses.starting_trials})
    folders = [
        folder
        for folder in map(results.trial, sorted(chosen))
        if folder.training_path.exists() and resuming_files(folder)
    ]
    with_models = registered() if folders else ()
    return [folder for folder in folders if folder.identity not in with_models]


def resuming_files(folder: TrialFolder) -> list[Path]:
    """The files of a trial's checkpoint that only a training that resumes reads."""
    return [path for name in RESUMING if (path := folder.checkpoint_path / name).exists()]


def reduce(folder: TrialFolder) -> int:
    """Removes the files for resuming from a finished trial's checkpoint, and records it first.

    Returns:
        The removed bytes; 0 if a process holds the trial, or if it is damaged or unfinished.
    """
    held = lease.acquire(folder.path)
    if held is None:
        return 0
    with contextlib.suppress(SupersededError), held:
        paths = resuming_files(folder)
        if TrialReading(folder).damage is not None or not _is_finished(folder) or not paths:
            return 0
        n_bytes = sum(path.stat().st_size for path in paths)
        removed = [path.name for path in paths]
        record = {"format_version": FORMAT_VERSION, "at": milliseconds(), "removed": removed, "bytes": n_bytes}
        write_json(folder.retention_path, record, held.writer())
        held.confirm()
        for path in paths:
            path.unlink()
        return n_bytes
    return 0


def _is_finished(folder: TrialFolder) -> bool:
    """Whether the checkpoint is that of a finished training, as training.json says."""
    try:
        state = read_json(folder.checkpoint_path / STATE, hint="", shape={"progress": {"finished": bool}})
    except InputError:
        return False
    return bool(state["progress"]["finished"]) and folder.training_path.exists()


def retain(results: ResultsFolder, registered: Callable[[], Collection[str]]) -> list[str]:
    """Reduces the checkpoints that no sweep keeps whole; returns the line that says so, none if there are none.

    All stay whole if a tracking server does not answer which models are registered; `registered` as for `beyond`.
    """
    try:
        folders = beyond(results, registered=registered)
    except InputError as error:
        return [f"all checkpoints stay whole: {error.line}"]
    sizes = [n_bytes for folder in folders if (n_bytes := reduce(folder))]
    return [f"{len(sizes)} checkpoints reduced to their weights: {megabytes(sum(sizes))} freed"] if sizes else []

"""The folder of an exported model: a checkpoint without the state of training, with its scores, card and checksums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

import mucon
from mucon.checkpoint_files import CONTRACT, Saved, contract_of, read, write_files, write_json
from mucon.errors import InputError, Problem
from mucon.export.card import card
from mucon.export.ensemble import combined
from mucon.export.runner import read_json
from mucon.export.scores import Score
from mucon.identity.checksums import CARD, EXPORTED, check_sums, has_sums, write_sums
from mucon.identity.weights import tensors_sha256
from storage.folders import StagedFolder, sync_folder

RECORD = EXPORTED
"""Members, scores and versions."""
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A training whose weights an exported model contains.

    Attributes:
        run: name of the run folder, or identity of the trial.
        seed: seed of the training.
        weights_sha256: digest of its weights, see `mucon.checkpoint_files.weights_sha256`.
    """

    run: str
    seed: int
    weights_sha256: str


def finished(folder: Path) -> Saved:
    """The checkpoint of a finished training.

    Raises:
        InputError: no checkpoint, a damaged one, or a training that has not finished.
    """
    if has_sums(folder):
        check_sums(folder)
    saved = read(folder)
    if not saved.progress.finished:
        message = f"training has not finished ({saved.progress.epoch} whole epochs)"
        hint = "run the same command again to finish it"
        raise InputError(
            Problem(rule="state", place=str(folder), value=saved.progress.epoch, message=message, hint=hint)
        )
    return saved


def write(
    target: Path,
    trainings: Mapping[str, Saved],
    *,
    name: str,
    scores: Callable[[Path], Sequence[Score]],
    selection: str = "",
    more: Sequence[Callable[[Path], None]] = (),
    replace_old: bool = False,
) -> None:
    """Writes an exported model; the old or the new folder is complete at any time.

    An exported folder that is exported again keeps its trainings and, unless there are others, its scores and how it
    was chosen.

    Args:
        target: the folder; a new or empty one, or an exported folder with `replace_old`.
        trainings: checkpoints by the name or folder of their run; several make an ensemble.
        name: heading of the card.
        scores: the scores of the model in a folder.
        selection: how the model was chosen among others.
        more: each writes further files for the model in a folder.
        replace_old: replace an exported folder.

    Raises:
        InputError: trainings that make no ensemble, other content at `target`, a folder that cannot be written, or
            what the functions raise.
    """
    saved = combined(trainings) if len(trainings) > 1 else next(iter(trainings.values()))
    earlier = {run: _record(Path(run)) for run in trainings}
    members = [
        Member(**known)
        for run, one in trainings.items()
        for known in earlier[run].get("members") or [asdict(_member(run, one))]
    ]
    own = next(iter(earlier.values())) if len(trainings) == 1 else {}
    selection = selection or own.get("selection", "")
    try:
        staged = StagedFolder(target, marker=RECORD, replace=replace_old)
        try:
            write_files(staged.path, replace(saved, optimiser={}, learner={}))
            contract = contract_of(staged.path)
            write_json(staged.path / CONTRACT, contract.to_dict())
            for write_more in more:
                write_more(staged.path)
            found = scores(staged.path)
            versions = {"mucon": version("mucon"), "numerics": mucon.NUMERICS, "evaluation": mucon.EVALUATION}
            if own and not found:
                found = [Score.from_dict(one) for one in own["scores"]]
                versions["evaluation"] = own["versions"]["evaluation"]
            facts = {"name": name, "method": saved.method, "versions": versions, "selection": selection}
            shown = {"members": [asdict(one) for one in members], "scores": [asdict(one) for one in found]}
            (staged.path / CARD).write_text(card(saved, contract, name, members, found, selection), encoding="utf-8")
            files = {"files": sum(path.is_file() for path in staged.path.rglob("*")) + 1}  # with the record itself
            write_json(staged.path / RECORD, {"format_version": FORMAT_VERSION} | facts | files | shown)
            write_sums(staged.path)
            _sync(staged.path)
            staged.publish()
        except BaseException:
            staged.discard()
            raise
    except (OSError, SafetensorError) as error:
        place, hint = str(target), "free some space or choose another folder"
        message = f"cannot be written ({getattr(error, 'strerror', None) or error})"
        raise InputError(Problem(rule="unwritable", place=place, value=place, message=message, hint=hint)) from error


def _record(run: Path) -> dict[str, Any]:
    """What an exported folder records of its model; empty for a run."""
    return read_json(run / RECORD) if (run / RECORD).is_file() else {}


def members_of(folder: Path) -> tuple[Member, ...]:
    """The trainings of an exported model; empty for a run, and for a checkpoint without a record."""
    return tuple(Member(**one) for one in _record(folder).get("members", ()))


def _member(run: str, saved: Saved) -> Member:
    return Member(run=Path(run).name, seed=int(saved.config["seed"]), weights_sha256=tensors_sha256(saved.weights))


def _sync(folder: Path) -> None:
    """Flushes all files and folders to disk."""
    for path in (*folder.rglob("*"), folder):
        sync_folder(path)


def check(folder: Path) -> None:
    """Compares every file of an exported folder with its checksum.

    Raises:
        InputError: no exported folder, or one problem per file that is missing or damaged.
    """
    if not (folder / RECORD).is_file():
        message = f"no exported model (it contains no {RECORD})"
        raise InputError(Problem(rule="missing", place=str(folder), value=str(folder), message=message))
    check_sums(folder)

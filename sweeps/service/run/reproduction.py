"""Trains one known trial again, by itself, and compares the bits."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mucon
from mucon.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL, InputError, nearest
from mucon.training import EpochReport
from storage import open_store
from sweeps.service.plan.recordings import absolute, split_facts
from sweeps.service.run.worker import run_trial
from sweeps.service.trials import journal
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.trial import Trial

SHOWN = (
    *("python", "platform", "device", "device_name", "threads", "precision", "numerics"),
    *("git_commit", "git_diff_sha256", "git_untracked"),
)
"""Of the environment, what can change bits, besides the versions of packages."""
EPOCHS_TOLD = 10
"""Lines about epochs, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A finished trial as its folder tells it.

    Attributes:
        trial: what was trained.
        result: of the evaluation that was made with it; without scores where another one was made first.
        environment: in which its last epoch was trained; empty where the journal does not say.
        numerics: the version of the arithmetic then.
    """

    trial: Trial
    result: Mapping[str, Any]
    environment: Mapping[str, Any]
    numerics: int


def reproduce(run: str, results: Path, *, store: Path | None, device: str, tell: Callable[[str], None]) -> int:
    """Trains a trial again in a temporary folder, without Ray and MLflow, and says whether the bits are the same.

    Args:
        run: the trial's identity, or its folder.
        results: the results folder in which an identity is looked for.
        store: where the recordings are now; None: where they were.
        device: `auto` takes the kind that it was trained on.
        tell: prints a line.

    Returns:
        The exit status: 0 for the same bits, 3 where something differs.

    Raises:
        InputError: no such trial, or one that has not finished.
        StoreError: whatever is wrong with the store.
    """
    known = read_known(find_trial(run, results))
    trial = known.trial if store is None else replace(known.trial, store=absolute(store))
    recordings = data_changes(trial)
    for line in recordings:
        tell(line)
    where = known.environment.get("device", "auto") if device == "auto" else device
    epochs = trial.config.training.epochs
    tell(f"training {trial.identity} again: split {trial.split}, seed {trial.config.seed}, {epochs} epochs, on {where}")
    try:
        with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
            outcome = run_trial(trial, Path(temporary), device=where, report=_teller(tell))
            if outcome.state is not State.FINISHED:
                tell(f"not reproduced: {outcome.state}{f', {outcome.reason}' if outcome.reason else ''}")
                return EXIT_PARTIAL
            again = read_known(TrialFolder(Path(temporary) / "trials" / trial.identity))
    except KeyboardInterrupt:
        tell("interrupted; nothing is kept")
        return EXIT_INTERRUPTED
    found = list(differences(known.result, again.result))
    if not found:
        scores = ", and every score" if known.result["scores"] else ""
        tell(f"the same bits: weights {again.result['weights_sha256']}{scores}")
        return EXIT_OK
    for line in found:
        tell(line)
    tell("what else differs:" if recordings else "what else differs (the recordings are the same):")
    changed = list(environment_changes(known, again))
    for line in changed or ["nothing that was recorded"]:
        tell(f"  {line}")
    return EXIT_PARTIAL


def find_trial(run: str, results: Path) -> TrialFolder:
    """The folder of a trial that is named by its identity or by its folder (or the `run` in it).

    Raises:
        InputError: there is none.
    """
    for path in (Path(run), Path(run).parent, results / "trials" / run):
        if (path / "trial.json").exists():
            return TrialFolder(path.absolute())
    there = sorted(path.parent.name for path in results.glob("trials/*/trial.json"))
    raise InputError(
        f"a run is a trial's identity or its folder, {run!r} is none in {results}{nearest(run, there)} "
        f"({len(there)} trials there): take one from `--dry-run`, or name another --results folder"
    )


def read_known(folder: TrialFolder) -> Known:
    """What a finished trial's folder tells.

    Raises:
        InputError: it has not finished, or its files are of another format.
    """
    value = folder.read_trial()
    result = folder.result(value["evaluation"]) if folder.trained() else None
    if result is None and folder.trained():  # the first evaluation was another one's than the one in trial.json
        result = {**json.loads((folder.path / "result.json").read_text(encoding="utf-8")), "scores": {}}
    if result is None:
        state, reason = folder.unfinished_state()
        raise InputError(
            f"a trial that has finished can be compared, {folder.path} is {state}{f' ({reason})' if reason else ''}: "
            "run its sweep again first"
        )
    environment: Mapping[str, Any] = {}
    current: Mapping[str, Any] = {}
    for record in journal.read(folder.journal_path)[0]:
        if record["kind"] == "environment":
            current = record
        elif record["kind"] == "epoch":
            environment = current
    return Known(trial=Trial.from_dict(value), result=result, environment=environment, numerics=value["numerics"])


def data_changes(trial: Trial) -> list[str]:
    """A line where the recordings are not those that the trial was trained on."""
    found = split_facts(open_store(Path(trial.store)), trial.split).fingerprint(trial.config)
    if found == trial.data_fingerprint:
        return []
    return [
        f"the recordings changed: split {trial.split} of {trial.store} has the fingerprint {found}, the trial was "
        f"trained on {trial.data_fingerprint}; other bits are to be expected"
    ]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Lines about what differs between two results: the weights, and each score.

    >>> list(differences({"weights_sha256": "a", "scores": {"full": {"mof": 0.5}}},
    ...                  {"weights_sha256": "b", "scores": {"full": {"mof": 0.25}}}))
    ['the weights differ: sha256 a before, b now', 'full.mof differs: 0.5 before, 0.25 now']
    """
    if before["weights_sha256"] != after["weights_sha256"]:
        yield f"the weights differ: sha256 {before['weights_sha256']} before, {after['weights_sha256']} now"
    old, new = _scores(before), _scores(after) if before["scores"] else {}
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{name} differs: {_value(old, name)} before, {_value(new, name)} now"


def environment_changes(before: Known, after: Known) -> Iterator[str]:
    """Lines about what differs between the places where two trials were trained."""
    if before.numerics != mucon.NUMERICS:
        yield f"numerics: {before.numerics} before, {mucon.NUMERICS} now (the arithmetic was changed on purpose)"
    old, new = before.environment, after.environment
    if not old:
        yield "the journal does not say where it was trained"
        return
    for name in SHOWN:
        if old.get(name) != new.get(name) and not (name == "numerics" and before.numerics != mucon.NUMERICS):
            yield f"{name}: {_value(old, name)} before, {_value(new, name)} now"
    packages, now = old.get("packages", {}), new.get("packages", {})
    for name in sorted({*packages, *now}):
        if packages.get(name) != now.get(name):
            yield f"{name}: {_value(packages, name)} before, {_value(now, name)} now"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `reproduce` to the commands of `mucon-sweeps`."""
    parser = commands.add_parser(
        "reproduce",
        help="train a known trial again and compare the bits",
        description=(
            "Trains one finished trial again in a temporary folder and compares the sha256 of its weights and its "
            "scores. Exit status 0: the same bits; 3: something differs, and what else does is told."
        ),
    )
    parser.add_argument("run", metavar="RUN", help="identity of a trial, or its folder")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the trials (default: results)")
    parser.add_argument("--store", type=Path, help="where the recordings are now (default: where they were)")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: as the trial was trained"
    )


def _teller(tell: Callable[[str], None]) -> Callable[[EpochReport], None]:
    """Tells of some epochs."""

    def report(epoch: EpochReport) -> None:
        every = -(-epoch.epochs // EPOCHS_TOLD)
        if epoch.epoch % every == 0 or epoch.epoch == epoch.epochs:
            tell(f"epoch {epoch.epoch}/{epoch.epochs} loss {epoch.losses['total']:.4f}")

    return report


def _scores(result: Mapping[str, Any]) -> dict[str, float | None]:
    return {
        f"{prediction}.{metric}": value
        for prediction, scores in result["scores"].items()
        for metric, value in scores.items()
    }


def _value(values: Mapping[str, Any], name: str) -> object:
    return values.get(name, "nothing")
